"""Calls of NVIDIA's libraries: products by cuBLASLt, convolutions by cuDNN."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from intaglio.errors import UnsupportedError
from intaglio.kernels.kernel import LibraryCall
from intaglio.targets.cuda.device import Device


@dataclass(frozen=True)
class LibraryWork:
    """A call with its addresses and sizes; `scratch` gives the address of so many bytes."""

    device: Device
    call: LibraryCall
    addresses: Sequence[int]
    sizes: Mapping[str, int]
    scratch: Callable[[int], int]


def library_call(work: LibraryWork) -> Callable[[], None]:
    """What puts the call on the device's stream, as often as it is called."""
    from intaglio.targets.cuda.convolutions import convolution_call
    from intaglio.targets.cuda.products import product_call

    makers = {"product": product_call, "convolution": convolution_call}
    if work.call.name not in makers:
        raise UnsupportedError(f"no library of CUDA computes {work.call.name}")
    return makers[work.call.name](work)
