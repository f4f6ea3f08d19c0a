"""The public names and signatures, pinned: a change here is a change for users."""

from __future__ import annotations

import inspect
import operator

import pytest

import intaglio
import intaglio.backend
import intaglio.compat
from intaglio import errors

PUBLIC = [
    "CompileError",
    "DeviceError",
    "ExternalDataError",
    "FaultWarning",
    "GraphError",
    "InferenceSession",
    "InputError",
    "IntaglioError",
    "LimitError",
    "Limits",
    "LoadError",
    "Model",
    "ModelBuilder",
    "ModelNotFoundError",
    "OperatorError",
    "RunTimeoutError",
    "Schema",
    "ShapeError",
    "State",
    "StatefulModel",
    "TrainingError",
    "UnsupportedError",
    "__version__",
    "autodiff",
    "build",
    "export",
    "extend",
    "get_operator",
    "grad",
    "has_operator",
    "hessian_vector_product",
    "implementation",
    "jacobian",
    "jvp",
    "load",
    "op",
    "ops",
    "pullback",
    "schema",
    "stateful",
    "train",
    "value_and_grad",
    "view",
    "vjp",
]

DERIVATIVE = ["model", "of", "wrt", "parameters", "recompute", "straight_through", "options"]

BACKEND = [
    "IntaglioBackend",
    "IntaglioBackendRep",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]

PARAMETERS = {
    "load": [
        "source",
        "example_inputs",
        "dynamic_shapes",
        "engine",
        "threads",
        "simplify",
        "disable",
        "exact",
        "quick",
        "strict",
        "donate",
        "base_folder",
        "progress",
        "implementations",
        "limits",
        "shared_weights",
        "device",
        "tf32",
    ],
    "schema": ["name", "domain", "version"],
    "has_operator": ["name", "domain", "version"],
    "get_operator": ["name", "domain"],
    "op": ["target", "name", "domain", "outputs", "infer"],
    "implementation": ["operator", "name", "domain", "applies", "expand"],
    **dict.fromkeys(("grad", "value_and_grad", "vjp", "jvp", "jacobian", "hessian_vector_product"), DERIVATIVE),
    "pullback": ["operator", "domain", "applies"],
    "stateful": ["model", "state", "updates", "capacity", "options"],
    "build": ["name", "inputs", "doc"],
    "extend": ["model", "options"],
    "ModelBuilder.input": ["self", "name", "type", "default"],
    "ModelBuilder.constant": ["self", "data", "name"],
    "ModelBuilder.output": ["self", "values", "named"],
    "ModelBuilder.model": ["self", "options"],
    "ModelBuilder.save": ["self", "path", "opset", "external_data"],
    "ModelBuilder.to_onnx": ["self", "opset"],
    "Model.__call__": ["self", "arrays", "named"],
    "Model.run": ["self", "feeds", "outputs", "timeout", "threads", "prune", "out"],
    "Model.memory_plan": ["self", "sizes", "named"],
    "Model.explain": ["self", "dims"],
    "Model.c_source": ["self"],
    "Model.save": ["self", "path", "opset", "external_data"],
    "Model.to_onnx": ["self", "opset"],
    "InferenceSession.__init__": [
        "self",
        "path_or_bytes",
        "sess_options",
        "providers",
        "provider_options",
        "limits",
        "kwargs",
    ],
    "InferenceSession.run": ["self", "output_names", "input_feed", "run_options"],
}


def test_public_names() -> None:
    assert sorted(intaglio.__all__) == sorted(PUBLIC)
    assert sorted(intaglio.backend.__all__) == sorted(BACKEND)
    assert all(hasattr(intaglio, name) for name in PUBLIC)
    assert all(hasattr(intaglio.compat, name) for name in intaglio.compat.__all__)


@pytest.mark.parametrize(("path", "names"), PARAMETERS.items())
def test_signatures(path: str, names: list[str]) -> None:
    found = operator.attrgetter(path)(intaglio)
    assert list(inspect.signature(found).parameters) == names


def test_everything_public_is_documented() -> None:
    for module in (intaglio, intaglio.backend, intaglio.compat):
        for name in module.__all__:
            item = getattr(module, name)
            if callable(item):
                assert inspect.getdoc(item), f"{module.__name__}.{name} has no docstring"


def test_every_error_is_one_of_ours_and_a_builtin() -> None:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    for kind in kinds:
        assert issubclass(kind, errors.IntaglioError)
        assert getattr(intaglio, kind.__name__) is kind
        builtin = [base for base in kind.__mro__ if base.__module__ == "builtins"]
        assert kind is errors.IntaglioError or len(builtin) > 3, f"{kind.__name__} is no builtin's subclass"
