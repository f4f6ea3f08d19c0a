"""One tree of exceptions.

Every error that Intaglio raises on purpose derives from `IntaglioError` and from the builtin that Python users would
catch for the same cause. The text says what is wrong, where, what was got and expected, and what to do.
"""


class IntaglioError(Exception):
    """The root of the tree: catch this to catch everything that Intaglio raises on purpose."""


class LoadError(IntaglioError, ValueError):
    """The bytes are not a model that can be read, or the model breaks ONNX's rules."""


class ModelNotFoundError(LoadError, FileNotFoundError):
    """There is no file at the given path."""


class ExternalDataError(LoadError):
    """A tensor names a file that is missing, outside the model's folder or of the wrong size."""


class GraphError(IntaglioError, ValueError):
    """A graph breaks a rule of the IR: a dangling value, a duplicate name, a cycle, a wrong type."""


class UnsupportedError(IntaglioError, NotImplementedError):
    """An operator, type or option that Intaglio does not handle; the text lists every one that the model needs."""


class ShapeError(IntaglioError, ValueError):
    """Shapes or types that an operator cannot take together."""


class InputError(IntaglioError, ValueError):
    """An input with a wrong name, dtype, rank or dimension; names the input, what was got and what was expected."""


class OperatorError(IntaglioError, ValueError):
    """An operator met a value at run time that its definition forbids: an index, axis, split or pad out of range."""


class LimitError(IntaglioError, MemoryError):
    """A limit on memory, nodes or loop iterations was reached."""


class RunTimeoutError(IntaglioError, TimeoutError):
    """The run took longer than its `timeout`."""


class CompileError(IntaglioError, RuntimeError):
    """The C compiler is missing, failed or was killed; the text holds the command and its first messages."""


class TrainingError(IntaglioError, ArithmeticError):
    """Training cannot go on: a loss is not finite; the text tells the step and the tensor that was the first."""


class DeviceError(IntaglioError, RuntimeError):
    """A device that a model shall run on is missing, lacks a library, or failed; the text says which and what helps."""
