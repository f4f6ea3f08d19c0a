"""The messages of the protocol by gRPC, as protobuf knows them.

They stand in a pool of their own: a client's generated code in the same process has the same names and does no harm.
On the wire a message has no name, so inner messages stand beside their outer ones here, and a map is a list of pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "inference"
SERVICE = "inference.GRPCInferenceService"

MESSAGES = """
Empty
Named            name=1:string version=2:string
Live             live=1:bool
Ready            ready=1:bool
Server           name=1:string version=2:string extensions=3:*string
TensorMetadata   name=1:string datatype=2:string shape=3:*int64
ModelMetadata    name=1:string versions=2:*string platform=3:string inputs=4:*TensorMetadata outputs=5:*TensorMetadata
Value            bool_param=1:?bool int64_param=2:?int64 string_param=3:?string double_param=4:?double
+                uint64_param=5:?uint64
Parameter        key=1:string value=2:Value
Contents         bool_contents=1:*bool int_contents=2:*int32 int64_contents=3:*int64 uint_contents=4:*uint32
+                uint64_contents=5:*uint64 fp32_contents=6:*float fp64_contents=7:*double bytes_contents=8:*bytes
Tensor           name=1:string datatype=2:string shape=3:*int64 parameters=4:*Parameter contents=5:Contents
Asked            name=1:string parameters=2:*Parameter
InferRequest     model_name=1:string model_version=2:string id=3:string parameters=4:*Parameter inputs=5:*Tensor
+                outputs=6:*Asked raw_input_contents=7:*bytes
InferResponse    model_name=1:string model_version=2:string id=3:string parameters=4:*Parameter outputs=5:*Tensor
+                raw_output_contents=6:*bytes
StreamResponse   error_message=1:string infer_response=2:InferResponse
ConfigInput      name=1:string data_type=2:int32 dims=4:*int64
ConfigOutput     name=1:string data_type=2:int32 dims=3:*int64
Config           name=1:string platform=2:string max_batch_size=4:int32 input=5:*ConfigInput output=6:*ConfigOutput
ConfigResponse   config=1:Config
Duration         count=1:uint64 ns=2:uint64
InferStatistics  success=1:Duration fail=2:Duration queue=3:Duration compute_input=4:Duration compute_infer=5:Duration
+                compute_output=6:Duration
BatchStatistics  batch_size=1:uint64 compute_input=2:Duration compute_infer=3:Duration compute_output=4:Duration
ModelStatistics  name=1:string version=2:string last_inference=3:uint64 inference_count=4:uint64
+                execution_count=5:uint64 inference_stats=6:InferStatistics batch_stats=7:*BatchStatistics
Statistics       model_stats=1:*ModelStatistics
IndexRequest     repository_name=1:string ready=2:bool
IndexEntry       name=1:string version=2:string state=3:string reason=4:string
Index            models=1:*IndexEntry
ControlValue     bool_param=1:?bool int64_param=2:?int64 string_param=3:?string bytes_param=4:?bytes
ControlParameter key=1:string value=2:ControlValue
Control          repository_name=1:string model_name=2:string parameters=3:*ControlParameter
Region           name=1:string key=2:string offset=3:uint64 byte_size=4:uint64
RegionPair       key=1:string value=2:Region
Regions          regions=1:*RegionPair
"""
"""A message on each line, its fields as name=number:type. `*` is a list, `?` one choice of several."""

DATA_TYPES = {
    "BOOL": 1, "UINT8": 2, "UINT16": 3, "UINT32": 4, "UINT64": 5, "INT8": 6, "INT16": 7, "INT32": 8, "INT64": 9,
    "FP16": 10, "FP32": 11, "FP64": 12, "STRING": 13, "BF16": 14,
}  # fmt: skip
"""The numbers of element types in the model configuration."""


def message(name: str) -> Any:
    """The class of a message of the table."""
    return _CLASSES[name]


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="intaglio_inference.proto", package=PACKAGE, syntax="proto3")
    for line in MESSAGES.replace("\n+", " ").strip().splitlines():
        name, *fields = line.split()
        _declare(file.message_type.add(name=name), fields)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)  # pyright: ignore[reportUnknownMemberType]
    names = [each.name for each in file.message_type]
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in names}  # pyright: ignore


def _declare(entry: descriptor_pb2.DescriptorProto, fields: Sequence[str]) -> None:
    kinds = descriptor_pb2.FieldDescriptorProto
    for text in fields:
        name, _, rest = text.partition("=")
        number, _, kind = rest.partition(":")
        field = entry.field.add(name=name, number=int(number), label=kinds.LABEL_OPTIONAL)
        if kind[0] == "*":
            field.label = kinds.LABEL_REPEATED
        elif kind[0] == "?":
            if not entry.oneof_decl:
                entry.oneof_decl.add(name="choice")
            field.oneof_index = 0
        kind = kind.lstrip("*?")
        if kind[0].isupper():
            field.type, field.type_name = kinds.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
        else:
            field.type = kinds.Type.Value(f"TYPE_{kind.upper()}")


_CLASSES = _classes()
