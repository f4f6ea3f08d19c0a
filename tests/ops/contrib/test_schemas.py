"""The classes of com.microsoft against the schemas of ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

from intaglio.ir.op import OPERATORS, is_required

DOMAIN = "com.microsoft"
SCHEMAS = {schema.name: schema for schema in get_all_operator_schema() if schema.domain == DOMAIN}
NAMES = sorted(name for domain, name in OPERATORS if domain == DOMAIN)


def default_of(attribute):
    """The default in a schema; None where it has none."""
    proto = onnx.AttributeProto.FromString(attribute._default_value)
    if not proto.name:
        return None
    value = onnx.helper.get_attribute_value(proto)
    return value.decode() if isinstance(value, bytes) else value


@pytest.mark.parametrize("name", NAMES)
def test_inputs_and_outputs_are_those_of_the_schema(name):
    schema, cls = SCHEMAS[name], OPERATORS[(DOMAIN, name)]
    assert [parameter.name for parameter in cls.parameters()] == [each.name for each in schema.inputs]
    for parameter, each in zip(cls.parameters(), schema.inputs, strict=True):
        kind = str(each.option).rsplit(".", 1)[-1].lower()
        # A required input behind optional ones has a default in Python; the expansion asks for it.
        assert parameter.kind == kind or (parameter.kind, kind) == ("optional", "single")
    if len(schema.outputs) > 1:
        assert list(cls.output_names) == [each.name for each in schema.outputs][: len(cls.output_names)]


@pytest.mark.parametrize("name", NAMES)
def test_attributes_are_those_of_the_schema(name):
    schema, cls = SCHEMAS[name], OPERATORS[(DOMAIN, name)]
    ours = {attribute.name: attribute for attribute in cls.attributes()}
    assert set(ours) == set(schema.attributes)
    for key, each in schema.attributes.items():
        assert is_required(ours[key]) == each.required
        wanted = default_of(each)
        if wanted is not None and not each.required:
            found: Any = ours[key].default
            assert np.float32(found) == np.float32(wanted) if isinstance(wanted, float) else found == wanted
