"""Schemas as objects: what they say is what ONNX says, and JSON keeps all of it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from onnx import defs

import intaglio
from intaglio import InputError, Schema
from intaglio.ir.op import OPERATORS


def test_conv() -> None:
    conv = intaglio.schema("Conv")
    assert (conv.name, conv.domain, conv.since_version, conv.is_deprecated) == ("Conv", "", 22, False)
    assert [(each.name, each.kind, each.min_count) for each in conv.inputs] == [
        ("X", "single", 1),
        ("W", "single", 1),
        ("B", "optional", 0),
    ]
    assert [each.name for each in conv.outputs] == ["Y"]
    group = conv.attribute("group")
    assert (group.type, group.is_required, group.default) == ("INT", False, 1)
    assert conv.attribute("pads").default is None
    assert set(conv.type_constraints[0].element_types) == {"bfloat16", "float16", "float32", "float64"}
    assert "tensor(float)" in conv.allowed_types(conv.input("W"))
    assert "convolution" in conv.doc


def test_versions_and_domains() -> None:
    assert intaglio.schema("Clip", version=6).attribute("max").default == pytest.approx(3.4028235e38)
    assert intaglio.schema("Clip", version=10) == intaglio.schema("Clip", version=6)
    assert intaglio.schema("Clip").input("max").kind == "optional"
    assert intaglio.schema("Scaler", "ai.onnx.ml").domain == "ai.onnx.ml"
    assert intaglio.schema("Conv", "ai.onnx") == intaglio.schema("Conv")
    assert intaglio.schema("Upsample").is_deprecated


def test_kinds_of_parameters_and_defaults() -> None:
    concat = intaglio.schema("Concat")
    assert (concat.inputs[0].kind, concat.inputs[0].min_count, concat.inputs[0].is_homogeneous) == ("variadic", 1, True)
    assert concat.attribute("axis").is_required
    assert not intaglio.schema("Loop").input("v_initial").is_homogeneous
    assert intaglio.schema("BatchNormalization").attribute("epsilon").default == 1e-05
    assert intaglio.schema("RNN").attribute("activations").default == ("Tanh", "Tanh")
    shape = intaglio.schema("Reshape").input("shape")
    assert intaglio.schema("Reshape").allowed_types(shape) == ("tensor(int64)",)


def every_schema() -> Iterator[Schema]:
    for each in defs.get_all_schemas_with_history():
        yield intaglio.schema(each.name, each.domain, each.since_version)
    for domain, name in OPERATORS:
        yield intaglio.schema(name, domain)


def test_json_keeps_every_schema() -> None:
    count = 0
    for each in every_schema():
        text = each.to_json()
        assert Schema.from_json(text) == each
        assert json.loads(text)["name"] == each.name
        assert each.name in str(each)
        count += 1
    assert count > 800


def test_every_schema_says_what_onnx_says() -> None:
    for source in defs.get_all_schemas():
        found = intaglio.schema(source.name, source.domain)
        assert [each.name for each in found.inputs] == [each.name for each in source.inputs]
        assert [each.name for each in found.outputs] == [each.name for each in source.outputs]
        required = {name for name, each in source.attributes.items() if each.required}
        assert {each.name for each in found.attributes if each.is_required} == required
        for constraint, theirs in zip(found.type_constraints, source.type_constraints, strict=True):
            assert set(constraint.types) == set(theirs.allowed_type_strs)


def test_operators_that_onnx_does_not_define() -> None:
    gelu = intaglio.schema("QuickGelu", "com.microsoft")
    assert [each.name for each in gelu.inputs] == ["X"]
    assert gelu.attribute("alpha").type == "FLOAT"
    assert gelu.attribute("alpha").default == pytest.approx(1.702)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Convv",), "there is no operator 'Convv' in 'ai.onnx'; did you mean Conv?"),
        (("Scaler",), "there is no operator 'Scaler' in 'ai.onnx'"),
        (("QuickGelu", "com.macrosoft"), "there is one in 'com.microsoft'"),
        (("Conv", "", 10_000), "version 10000 of 'ai.onnx' is not known"),
        (("Gelu", "", 19), "Gelu is not in version 19 of 'ai.onnx'"),
        (("Conv", "", -1), "Conv is not in version -1"),
    ],
)
def test_unknown_operators(arguments: tuple[str, str, int], message: str) -> None:
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        intaglio.schema(*arguments)


def test_unknown_parts() -> None:
    conv = intaglio.schema("Conv")
    with pytest.raises(InputError, match="Conv has no attribute 'stride'; did you mean 'strides'"):
        conv.attribute("stride")
    with pytest.raises(InputError, match="Conv has no input 'Z'; it has X, W, B"):
        conv.input("Z")
    with pytest.raises(InputError, match="Conv has no output"):
        conv.output("Z")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no json", "this is no schema"),
        ("[]", "the schema is a list, expected an object"),
        ("{}", "the schema lacks the field 'name'"),
        ('{"name": "A", "color": 1}', "unknown field 'color'"),
        ('{"name": 3}', "the schema/name is '3'"),
        ('{"name": "A", "since_version": true}', "since_version"),
        ('{"name": "A", "inputs": 3}', "the schema/inputs is '3'"),
        ('{"name": "A", "inputs": [{"name": "x", "kind": "many"}]}', "the schema/inputs/0/kind is 'many'"),
        ('{"name": "A", "type_constraints": [{"name": "T", "types": [1]}]}', "the schema/type_constraints/0/types"),
    ],
)
def test_json_that_is_no_schema(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Schema.from_json(text)


def test_has_operator() -> None:
    assert intaglio.has_operator("Conv")
    assert intaglio.has_operator("Constant")
    assert intaglio.has_operator("Upsample", version=9)
    assert intaglio.has_operator("Scaler", domain="ai.onnx.ml")
    assert intaglio.has_operator("QuickGelu", "com.microsoft")
    assert not intaglio.has_operator("Scaler")
    assert not intaglio.has_operator("Conv", "nowhere")
    assert not intaglio.has_operator("Conv", version=0)
    assert not intaglio.has_operator("Conv", version=10_000)
    assert not intaglio.has_operator("Gelu", version=19)


def test_get_operator() -> None:
    found = intaglio.get_operator("LeakyRelu")
    assert found.op is OPERATORS["", "LeakyRelu"]
    assert found.function is intaglio.ops.LeakyRelu
    with pytest.raises(InputError, match="did you mean LeakyRelu"):
        intaglio.get_operator("LeekyRelu")
    with pytest.raises(InputError, match="read in terms of other operators"):
        intaglio.get_operator("Upsample")
