"""The frames of a plan's segments."""

from __future__ import annotations

from collections.abc import Mapping

from intaglio.ir.dim import symbols
from intaglio.ir.types import TensorType, Type
from intaglio.kernels.arena import layout
from intaglio.kernels.frame import Frame, Result, Room
from intaglio.kernels.in_place import commits, first_write
from intaglio.kernels.overflow import safe_limit
from intaglio.kernels.plan import Call, walk
from intaglio.kernels.plan_form import PlanForm, SegmentForm
from intaglio.kernels.segment_sizes import given_dims, segment_symbols
from intaglio.kernels.view import Buffer


def frames_of(form: PlanForm) -> list[Frame]:
    """The frame of each segment, in order."""
    types = {value.id: value.type for value in form.values}
    return [_frame(segment, types) for segment in form.segments]


def _frame(segment: SegmentForm, types: Mapping[str, Type]) -> Frame:
    names = set(segment.late)
    calls = [action.flops for action in walk(segment.actions) if isinstance(action, Call)]
    pairs = zip(segment.outputs, segment.output_buffers, strict=True)
    ends = [types[name] for name in (*segment.inputs, *segment.outputs)]
    return Frame(
        inputs=tuple(segment.inputs),
        outputs=tuple(segment.outputs),
        results=tuple([_result(types[name], buffer) for name, buffer in pairs]),
        late=(*segment.late_outputs, False) if segment.told else tuple(segment.late_outputs),
        symbols=tuple(segment_symbols(segment)),
        finds=tuple(segment.late),
        told=segment.told,
        arena=tuple([Room(buffer.name, buffer.bytes) for buffer in segment.arena]),
        layout=layout(segment),
        work=tuple([flops for flops in calls if names.isdisjoint(symbols(flops))]),
        aliases=tuple([(alias.output, alias.input) for alias in segment.aliases]),
        first_write=first_write(segment) if segment.aliases and not commits(segment) else -1,
        is_narrow=any(isinstance(each, TensorType) and each.dtype.is_narrow for each in ends),
        safe=safe_limit(given_dims(segment)),
    )


def _result(type: Type, buffer: Buffer) -> Result:
    assert isinstance(type, TensorType), "a segment gives tensors alone"
    if buffer.is_late:
        return Result(buffer.name, type.dtype, None, None)
    return Result(buffer.name, type.dtype, tuple(type.shape or ()), buffer.bytes)
