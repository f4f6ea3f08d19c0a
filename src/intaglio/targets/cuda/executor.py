"""Plans on one CUDA device: their constants are uploaded once, their segments become steps that run there."""

from __future__ import annotations

from collections.abc import Sequence

from intaglio.ir.op import Array
from intaglio.ir.types import TensorType
from intaglio.kernels.arena import layout
from intaglio.kernels.plan import Segment
from intaglio.targets.cuda.device import Device, Memory, device
from intaglio.targets.cuda.segment import DeviceSegment, Port
from intaglio.targets.cuda.target_rules import CudaRules
from intaglio.targets.cuda.units import Units

_ALIGNMENT = 256


class Weights:
    """Constants of plans in the device's memory."""

    def __init__(self, device: Device, arrays: Sequence[Array]) -> None:
        starts = [0]
        for array in arrays:
            starts.append(starts[-1] + -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT)
        self.memory: Memory = device.allocate(starts[-1], "the weights of a model")
        self.addresses = [self.memory.address + start for start in starts[:-1]]
        for array, address in zip(arrays, self.addresses, strict=True):
            device.upload(address, array.ctypes.data, array.nbytes)
        device.wait()


class CudaExecutor:
    """Plans on a device."""

    def __init__(self, number: int = 0, *, tf32: bool = False) -> None:
        self._number, self._tf32 = number, tf32
        self._units: Units | None = None

    @property
    def rules(self) -> CudaRules:
        """What lowering asks of the device."""
        return CudaRules(tf32=self._tf32)

    @property
    def device(self) -> Device:
        """The device, opened when it is first needed."""
        return device(self._number)

    def segment(self, segment: Segment, weights: Weights) -> DeviceSegment:
        """A segment, ready to be prepared for sizes."""
        if self._units is None:
            self._units = Units(self.device)
        inputs = [Port(value.dtype, tuple(value.shape)) for value in segment.inputs]
        outputs = [
            Port(value.dtype, None if buffer.is_late else tuple(value.shape))
            for value, buffer in zip(segment.outputs, segment.output_buffers, strict=True)
            if isinstance(value.type, TensorType)
        ]
        return DeviceSegment(segment, layout(segment), inputs, outputs, weights.addresses, self.device, self._units)
