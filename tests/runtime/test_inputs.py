"""What may be fed: tensors of PyTorch of every kind, bytes for strings, a lone name for an output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import intaglio
from intaglio import InputError
from intaglio.runtime.engine.engine import EngineName

Make = Callable[..., onnx.ModelProto]
IDENTITY = "g ({kind}[n] x) => ({kind}[n] y) {{ y = Identity(x) }}"


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="tensors of PyTorch can be fed where it is installed")


NARROW = {
    "bfloat16": "bfloat16",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e5m2": "float8_e5m2",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2fnuz": "float8_e5m2fnuz",
}


@pytest.mark.parametrize("kind", NARROW)
def test_tensors_of_types_that_numpy_lacks(torch: Any, make: Make, engine: EngineName, kind: str) -> None:
    name = NARROW[kind]
    model = intaglio.load(make(IDENTITY.format(kind=kind)), engine=engine)
    values = torch.tensor([0.5, -1.0, 2.0, 0.0]).to(getattr(torch, name))
    found = model(values)
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found.float().numpy(), [0.5, -1.0, 2.0, 0.0])
    np.testing.assert_array_equal(model(values[::2]).float().numpy(), [0.5, 2.0])


@pytest.mark.parametrize("kind", ["float", "double", "float16", "int8", "int64", "bool", "uint8", "int16", "uint16"])
def test_tensors_of_other_types(torch: Any, make: Make, kind: str) -> None:
    model = intaglio.load(make(IDENTITY.format(kind=kind)), engine="reference")
    name = {"float": "float32", "double": "float64"}.get(kind, kind)
    values = torch.tensor([1, 0, 1]).to(getattr(torch, name))
    assert model(values).tolist() == values.tolist()


def test_tensors_that_need_a_gradient_are_detached(torch: Any, make: Make, engine: EngineName) -> None:
    model = intaglio.load(make(IDENTITY.format(kind="float")), engine=engine)
    values = torch.ones(3, requires_grad=True)
    assert model(values).tolist() == [1, 1, 1]
    assert model(values * 2).tolist() == [2, 2, 2]
    assert model(torch.nn.Parameter(values)).tolist() == [1, 1, 1]
    assert model.run({"x": values})["y"].tolist() == [1, 1, 1]


def test_conjugate_and_negative_views(torch: Any, make: Make) -> None:
    model = intaglio.load(make(IDENTITY.format(kind="complex64")), engine="reference")
    values = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex64)
    assert model(values.conj()).tolist() == [1 - 2j, 3 + 1j]


def test_tensors_that_are_no_arrays(torch: Any, make: Make) -> None:
    model = intaglio.load(make(IDENTITY.format(kind="float")), engine="reference")
    with pytest.raises(InputError, match=r"tensor on meta; .*tensor.cpu\(\)"):
        model(torch.ones(3, device="meta"))
    with pytest.raises(InputError, match=r"input 'x' is a tensor of torch.float32, which cannot be read as an array"):
        model(torch.ones(3).to_sparse())
    with pytest.raises(InputError, match="has dtype bfloat16, expected float32"):
        model(torch.ones(3, dtype=torch.bfloat16))


class Stubborn:
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError("not today")


def test_what_another_library_raises_names_the_input(make: Make) -> None:
    model = intaglio.load(make(IDENTITY.format(kind="float")), engine="reference")
    with pytest.raises(InputError, match="input 'x' is a Stubborn, which cannot be read as an array: not today"):
        model(Stubborn())


TEXTS = ["plain", "", "ümläut", "瑪瑙"]
ENCODED = [text.encode() for text in TEXTS]


@pytest.mark.parametrize(
    "fed",
    [
        TEXTS,
        ENCODED,
        np.array(TEXTS),
        np.array(ENCODED),
        np.array(TEXTS, object),
        np.array(ENCODED, object),
        np.array([ENCODED[0], *TEXTS[1:]], object),
    ],
    ids=["list", "list of bytes", "U", "S", "objects", "objects of bytes", "mixed"],
)
def test_strings_may_be_bytes(make: Make, fed: Any) -> None:
    model = intaglio.load(make("g (string[n] x) => (string[n] y) { y = StringConcat(x, x) }"))
    assert model(fed).tolist() == [text + text for text in TEXTS]


def test_bytes_that_are_no_text_survive_as_those_of_a_model_do(make: Make) -> None:
    model = intaglio.load(make(IDENTITY.format(kind="string")), engine="reference")
    (found,) = model(np.array([b"\xff"], object)).tolist()
    assert found.encode("utf-8", "surrogateescape") == b"\xff"


def test_objects_that_are_no_strings(make: Make) -> None:
    model = intaglio.load(make(IDENTITY.format(kind="string")), engine="reference")
    for fed in (np.array(["a", 3], object), ["a", None], [1, 2]):
        with pytest.raises(InputError, match=r"input 'x' holds (a int|None), expected strings"):
            model(fed)


def test_a_lone_name_is_one_output(affine: onnx.ModelProto, engine: EngineName) -> None:
    model = intaglio.load(affine, engine=engine)
    feeds = {"x": np.array([[1, -2, 3]], np.float32), "y": np.array([2, 2, 2], np.float32)}
    assert list(model.run(feeds, outputs="scaled")) == ["scaled"]
    assert model.run(feeds, outputs="scaled")["scaled"].tolist() == [[2, -4, 6]]
    with pytest.raises(InputError, match=r"the model has no tensor 'scalde'; did you mean 'scaled'\?"):
        model.run(feeds, outputs="scalde")


def test_a_lone_name_is_one_pass(affine: onnx.ModelProto) -> None:
    model = intaglio.load(affine, engine="reference", disable="dead-code")
    assert model.options.disable == ("dead-code",)
    with pytest.raises(InputError, match="dead-kode"):
        intaglio.load(affine, engine="reference", disable="dead-kode")
