"""Constants of plans in a device's memory."""

from __future__ import annotations

from collections.abc import Sequence

from intaglio.ir.op import Array
from intaglio.targets.arrays import exportable
from intaglio.targets.cuda.device import Device

_ALIGNMENT = 256


class Weights:
    """Arrays that were copied to a device, which holds them as long as this object is there."""

    def __init__(self, device: Device, arrays: Sequence[Array]) -> None:
        held = [exportable(array) for array in arrays]
        starts = [0]
        for array in held:
            starts.append(starts[-1] + -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT)
        device.enter()
        self.memory = device.allocate(starts[-1], "the weights of a model")
        self.addresses = [self.memory.address + start for start in starts[:-1]]
        for array, address in zip(held, self.addresses, strict=True):
            device.upload(address, array.ctypes.data, array.nbytes)
        device.wait()
