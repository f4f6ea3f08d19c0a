"""The operators, by family: type rule, reference, expansion and gradient of one operator stand together.

Each operator of ONNX's own domain is also a function here: `ops.Conv(x, w, strides=[2, 2])`; see `functions`. The
families are imported when somebody asks for what is in them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from intaglio.ops.families import *  # noqa: F403  (one list of them)
    from intaglio.ops.functions import domain as domain


def __getattr__(name: str) -> Any:
    """A family, or the function of an operator of ONNX's own domain."""
    if name[:1].islower() and name != "domain":
        try:
            return import_module(f"{__name__}.{name}")
        except ModuleNotFoundError:
            raise AttributeError(f"there is no family of operators {name!r}") from None
    functions = import_module(f"{__name__}.functions")
    return functions.domain if name == "domain" else functions.find_function(name)


def __dir__() -> list[str]:
    import_module(f"{__name__}.families")
    hidden = ("Any", "TYPE_CHECKING", "families", "import_module")
    names = import_module(f"{__name__}.functions").operator_names()
    return [*(name for name in globals() if name not in hidden), "domain", *names]
