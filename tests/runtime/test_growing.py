"""Caches that grow in memory with room for more give what arrays that are joined anew give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import intaglio
from intaglio import build, ops, stateful
from intaglio.ir.graph import Graph
from intaglio.runtime.model.growing import GrowingModel

UPDATES = {"past_k": "present_k", "past_v": "present_v"}


def joined() -> Graph:
    """Keys and values that are joined by Concat, which other nodes read too."""
    with build("joined") as g:
        x = g.input("x", "float32[1,2,S,8]")
        k, v = (g.input(name, "float32[1,2,P,8]") for name in UPDATES)
        keys, values = ops.Concat(k, ops.Tanh(x), axis=2), ops.Concat(v, x * 2.0, axis=2)
        g.output(y=ops.Attention(x, keys, values), mean=ops.ReduceSum(v, keepdims=0), present_k=keys, present_v=values)
    return g.graph


def attention(is_causal: int, mask: str | None = None, packed: bool = False) -> Graph:
    """Attention with a past of its own."""
    with build("attention") as g:
        x = g.input("x", "float32[1,S,16]" if packed else "float32[1,2,S,8]")
        k, v = (g.input(name, "float32[1,2,P,8]") for name in UPDATES)
        given = None if mask is None else g.input("mask", mask)
        named: dict[str, Any] = {"q_num_heads": 2, "kv_num_heads": 2} if packed else {}
        y, keys, values = ops.Attention(x, ops.Tanh(x), x * 2.0, given, k, v, is_causal=is_causal, outputs=3, **named)
        g.output(y=y, present_k=keys, present_v=values)
    return g.graph


GRAPHS = {
    "joined": joined,
    "attention": lambda: attention(0),
    "causal": lambda: attention(1),
    "masked": lambda: attention(1, "float32[S,T]"),
    "flags": lambda: attention(1, "bool[S,T]"),
    "packed": lambda: attention(1, packed=True),
}


def grown(graph: Graph, past: int = 0, **options: Any) -> GrowingModel:
    empty = np.ones((1, 2, past, 8), np.float32)
    model = stateful(graph, {"past_k": empty, "past_v": empty}, updates=UPDATES, capacity={"P": 16}, **options)
    assert isinstance(model, GrowingModel)
    return model


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("name", GRAPHS)
def test_runs_append_to_caches(name: str, engine: Any) -> None:
    graph, dice = GRAPHS[name](), np.random.default_rng(0)
    plain, model = intaglio.load(graph), grown(graph, 2, engine=engine)
    caches = {each: np.ones((1, 2, 2, 8), np.float32) for each in UPDATES}
    places = {each: model.cache(each).ctypes.data for each in UPDATES}
    for count in (3, 1, 1, 4, 1):
        shape = (1, count, 16) if name == "packed" else (1, 2, count, 8)
        feeds: dict[str, Any] = {"x": dice.standard_normal(shape, dtype=np.float32)}
        total = caches["past_k"].shape[2] + count
        if name in ("masked", "flags"):
            mask = dice.random((count, total)) < 0.8
            feeds["mask"] = mask if name == "flags" else mask.astype(np.float32)
        wanted, found = plain.run({**feeds, **caches}), model.run(feeds)
        assert list(found) == [item.name for item in model.outputs]
        for each, array in found.items():
            np.testing.assert_allclose(array, wanted[each], rtol=1e-5, atol=1e-6)
        caches = {each: wanted[made] for each, made in UPDATES.items()}
        for each, array in caches.items():
            np.testing.assert_allclose(model.cache(each), array, rtol=1e-6)
            assert model.cache(each).ctypes.data == places[each]
            assert model.cache(each).strides == (2 * 16 * 8 * 4, 16 * 8 * 4, 32, 4)
    assert model.lengths == {"P": 12}


def test_only_what_is_new_is_written() -> None:
    found = grown(attention(1)).model.explain()
    assert [note.partition(":")[0] for note in found.notes[:2]] == ["in place", "in place"]
    assert not [call for call in found.calls if call.title.startswith("copy")]


def test_a_run_without_room_changes_nothing() -> None:
    model, x = grown(joined()), np.ones((1, 2, 9, 8), np.float32)
    model.run({"x": x})
    before = {name: model.cache(name).copy() for name in UPDATES}
    with pytest.raises(intaglio.OperatorError, match="they hold 9 of 16 along 'P'"):
        model.run({"x": x * 3})
    assert model.lengths == {"P": 9}
    for name, array in before.items():
        np.testing.assert_array_equal(model.cache(name), array)
    model.run({"x": x[:, :, :1]}, accept=lambda found: False)
    assert model.lengths == {"P": 9}
    model.cut({"P": 2})
    assert model.cache("past_k").shape == (1, 2, 2, 8)
    model.run({"x": x * 3})
    assert model.lengths == {"P": 11}
    with pytest.raises(intaglio.InputError, match="cannot be cut to 12"):
        model.cut({"P": 12})


@pytest.mark.parametrize(
    ("capacity", "text"),
    [({"Q": 4}, "no state grows along 'Q'"), ({"P": 0}, "expected a number"), ({"P": 16, "S": 4}, "grows along 'S'")],
)
def test_wrong_capacities(capacity: Any, text: str) -> None:
    empty = np.ones((1, 2, 0, 8), np.float32)
    with pytest.raises(intaglio.InputError, match=text):
        stateful(joined(), {"past_k": empty, "past_v": empty}, updates=UPDATES, capacity=capacity)


def test_what_is_no_cache() -> None:
    with build("sum") as g:
        past, x = g.input("past", "float32[1,P]"), g.input("x", "float32[1,1]")
        g.output(present=past + x)
    with pytest.raises(intaglio.InputError, match=r"made by Add, expected Concat\('past', new\) along axis 1"):
        stateful(g.graph, {"past": np.ones((1, 2), np.float32)}, updates={"past": "present"}, capacity={"P": 4})
    empty = np.ones((1, 2, 20, 8), np.float32)
    with pytest.raises(intaglio.InputError, match="has 20 along 'P', capacity 16"):
        stateful(joined(), {"past_k": empty, "past_v": empty}, updates=UPDATES, capacity={"P": 16})
