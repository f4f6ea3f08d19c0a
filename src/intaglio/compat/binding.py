"""Inputs and outputs bound before a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from intaglio.compat.devices import OrtDevice, check_device
from intaglio.compat.naming import numpy_type
from intaglio.compat.values import OrtValue, OrtValueVector, memory_at, write
from intaglio.errors import InputError
from intaglio.ir.op import Array
from intaglio.record import Record

if TYPE_CHECKING:
    from intaglio.compat.options import RunOptions
    from intaglio.compat.session import InferenceSession


class _Wanted(Record):
    """How an output is asked for: in some memory, or with a type and shape that it must have."""

    memory: Array | None = None
    value: OrtValue | None = None
    dtype: np.dtype[Any] | None = None
    shape: tuple[int, ...] | None = None

    def deliver(self, name: str, result: Any) -> OrtValue:
        """The result as it was asked for."""
        place = f"the memory bound for output {name!r}"
        if self.dtype is not None and result.dtype != self.dtype:
            raise InputError(f"output {name!r} was bound as {self.dtype} and is {result.dtype}")
        if self.shape is not None and result.shape != self.shape:
            raise InputError(
                f"output {name!r} was bound with the shape {list(self.shape)} and has {list(result.shape)}"
            )
        if self.value is not None:
            write(self.value._array(), result, place)
            return self.value
        if self.memory is not None:
            write(self.memory, result, place)
            return OrtValue(self.memory)
        return OrtValue(result)


class IOBinding:
    """Inputs and outputs bound before a run.

    What is bound by address is read and written there in each run; its owner must keep it.
    """

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, _Wanted] = {}
        self._results: list[OrtValue] = []

    def _name(self, name: str, is_input: bool) -> str:
        model = self._session.model
        known = [item.name for item in (model.inputs if is_input else model.outputs)]
        if name not in known:
            kind = "input" if is_input else "output"
            raise InputError(f"the model has no {kind} {name!r}; it has {', '.join(map(repr, known))}")
        return name

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Feed an array."""
        self._inputs[self._name(name, True)] = arr_on_cpu

    def bind_input(
        self,
        name: str,
        device_type: str | OrtDevice,
        device_id: int,
        element_type: Any,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Feed what each run finds in memory at an address."""
        check_device(device_type, device_id)
        self._inputs[self._name(name, True)] = memory_at(buffer_ptr, element_type, shape)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Feed a value."""
        self._inputs[self._name(name, True)] = ortvalue

    def bind_output(
        self,
        name: str,
        device_type: str | OrtDevice = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Ask for an output, in the memory at an address where one is given.

        The output must have the element type and shape, where these are given.
        """
        check_device(device_type, device_id)
        if buffer_ptr is not None and (element_type is None or shape is None):
            raise InputError("memory at an address needs an element_type and a shape")
        dtype = None if element_type is None else numpy_type(element_type)
        sizes = None if shape is None else tuple(int(size) for size in shape)
        memory = None if buffer_ptr is None else memory_at(buffer_ptr, dtype, sizes or ())
        self._outputs[self._name(name, False)] = _Wanted(memory, None, dtype, sizes)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Ask for an output in the memory of a value."""
        self._outputs[self._name(name, False)] = _Wanted(value=ortvalue)

    def clear_binding_inputs(self) -> None:
        """Forget the inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forget the outputs."""
        self._outputs.clear()

    def synchronize_inputs(self) -> None:
        """Nothing to wait for on the CPU."""

    def synchronize_outputs(self) -> None:
        """Nothing to wait for on the CPU."""

    def get_outputs(self) -> list[OrtValue]:
        """The outputs of the last run, in the order they were bound."""
        return list(self._results)

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        """The outputs of the last run, in the order they were bound."""
        return OrtValueVector(self._results)

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Copies of the outputs of the last run as arrays, lists or maps."""
        found = [value.numpy() for value in self._results]
        return [array.copy() if isinstance(array, np.ndarray) else array for array in found]

    @property
    def _iobinding(self) -> IOBinding:
        return self

    def _run(self, run_options: RunOptions | None) -> None:
        """Run the session on what is bound."""
        if not self._outputs:
            raise InputError("no output is bound; call bind_output for those that you want")
        names = list(self._outputs)
        results = self._session.run(names, self._inputs, run_options)
        bound = zip(names, self._outputs.values(), results, strict=True)
        self._results = [wanted.deliver(name, result) for name, wanted, result in bound]


class SessionIOBinding(IOBinding):
    """The binding with the signatures of ONNX Runtime's C++ class: devices are `OrtDevice`s."""

    def bind_input(self, name: str, *given: Any) -> None:
        """Feed an array; or what is found at an address, for a device, element type, shape and address."""
        if len(given) == 1:
            self.bind_cpu_input(name, given[0])
        else:
            device, element_type, shape, address = given
            super().bind_input(name, device, 0, element_type, shape, address)

    def bind_output(self, name: str, device: OrtDevice, *memory: Any) -> None:
        """Ask for an output, or for one in memory of an element type, shape and address."""
        super().bind_output(name, device, 0, *memory)

    def get_outputs(self) -> OrtValueVector:
        """The outputs of the last run, in the order they were bound."""
        return OrtValueVector(self._results)
