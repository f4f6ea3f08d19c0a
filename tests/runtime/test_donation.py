"""Inputs that are given away: outputs take their memory, and nothing else changes."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.present import tensor

import intaglio
from intaglio import build, ops
from intaglio.runtime.model.model import Model


def cache_graph() -> Any:
    """A cache of rows, of which a run writes one, and the sum of it all."""
    with build("cache") as g:
        cache, row, place = (
            g.input("cache", "float32[N,8]"),
            g.input("row", "float32[1,8]"),
            g.input("place", "int64[1,1]"),
        )
        new = ops.ScatterND(cache, place, row)
        g.output(new=new, sum=ops.ReduceSum(new, keepdims=0))
    return g.graph


def loaded(**options: Any) -> Model:
    return intaglio.load(cache_graph(), **{"donate": {"cache": "new"}, **options})


def feeds(rows: int = 4, place: int = 2) -> dict[str, Any]:
    cache = np.arange(8 * rows, dtype=np.float32).reshape(rows, 8).copy()
    return {"cache": cache, "row": np.full((1, 8), 7, np.float32), "place": np.array([[place]])}


def notes(model: Model) -> str:
    return "\n".join(model.explain().notes)


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_the_array_that_is_given_is_the_one_that_is_returned(engine: Any) -> None:
    model = loaded(engine=engine)
    for _ in range(3):
        given = feeds()
        wanted = given["cache"].copy()
        wanted[2] = 7
        results = model.run(given)
        assert results["new"] is given["cache"]
        np.testing.assert_array_equal(results["new"], wanted)
        assert results["sum"] == wanted.sum()
    given = feeds()
    new, _ = model(*given.values())
    assert new is given["cache"]
    given = feeds()
    assert model.bind(*feeds().values())(*given.values())[0] is given["cache"]


def test_only_what_changes_is_written() -> None:
    """No kernel copies the cache, and the plan of memory does not count it."""
    model = loaded()
    assert "in place: new takes the memory of cache" in notes(model)
    calls = [call for call in model.explain().calls if call.kind == "kernel"]
    assert [call.kernel for call in calls] == ["scatter_nd_none", "reducesum"]
    assert model.memory_plan(N=1000).outputs == 4
    plain = intaglio.load(cache_graph())
    assert plain.memory_plan(N=1000).outputs == 4 + 32 * 1000
    assert plain.run(given := feeds())["new"] is not given["cache"]


def test_what_is_read_afterwards_is_not_written_over() -> None:
    """The old sum is computed of the old cache whichever comes first, and the result still lies in its memory."""
    with build("late") as g:
        cache, row, place = (
            g.input("cache", "float32[N,8]"),
            g.input("row", "float32[1,8]"),
            g.input("place", "int64[1,1]"),
        )
        new = ops.ScatterND(cache, place, row)
        g.output(new=new, old=ops.Transpose(cache) + ops.ReduceSum(new, keepdims=0))
    model = intaglio.load(g.graph, donate={"cache": "new"})
    given = feeds()
    before = given["cache"].copy()
    after = before.copy()
    after[2] = 7
    for _ in range(2):
        given = feeds()
        results = model.run(given)
        assert results["new"] is given["cache"]
        np.testing.assert_array_equal(results["new"], after)
        np.testing.assert_allclose(results["old"], before.T + after.sum())
    assert "copied at the end: new to the memory of cache, because Add" in notes(model)


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_what_cannot_be_given_away(engine: Any) -> None:
    model, other = loaded(engine=engine), feeds()
    whole = np.zeros((9, 8), np.float32)
    wrong: dict[str, tuple[dict[str, Any], str]] = {
        "read-only": ({"cache": np.broadcast_to(np.float32(0), (4, 8))}, "read-only"),
        "a list": ({"cache": other["cache"].tolist()}, "a list"),
        "not contiguous": ({"cache": whole[::2][:4]}, "not contiguous"),
        "shared": ({"cache": whole[:4], "row": whole[3:4]}, "another input shares memory"),
        "shared before": ({"cache": whole[4:8], "row": whole[4:5]}, "another input shares memory"),
    }
    model.run(feeds())  # so that the short way is there
    for feed, text in wrong.values():
        before = whole.copy()
        for run in (model.run, lambda given: model(**given), lambda given: model(*given.values())):
            with pytest.raises(intaglio.InputError, match=text):
                run({**feeds(), **feed})
        np.testing.assert_array_equal(whole, before)
    fresh = feeds()
    with pytest.raises(intaglio.InputError, match="out has an array for 'new'"):
        model.run(fresh, out={"new": np.empty((4, 8), np.float32)})
    with pytest.raises(intaglio.InputError, match="shares memory"):
        model.run(fresh, out={"sum": fresh["cache"][0, :1].reshape(())})


def test_two_inputs_of_one_array() -> None:
    with build("twice") as g:
        left, right = g.input("left", "float32[N]"), g.input("right", "float32[N]")
        g.output(more=left + right, less=left - right)
    model = intaglio.load(g.graph, donate={"left": "more", "right": "less"})
    array = np.ones(3, np.float32)
    with pytest.raises(intaglio.InputError, match="another input shares memory"):
        model(array, array)
    left, right = np.array([1, 2, 3], np.float32), np.array([10, 20, 30], np.float32)
    more, less = model(left, right)
    assert more is left
    assert less is right
    assert (more.tolist(), less.tolist()) == ([11, 22, 33], [-9, -18, -27])


@pytest.mark.parametrize(
    ("donate", "text"),
    [
        ({"cash": "new"}, "no input 'cash'; did you mean 'cache'"),
        ({"cache": "news"}, "no output 'news'; did you mean 'new'"),
        ({"row": "new"}, "own type and shape.*capacity="),
        ({"cache": "new", "row": "new"}, "own type and shape"),
        ({"cache": "sum"}, "own type and shape"),
        (["cache"], "expected a dict"),
        ({"cache": 3}, "expected a dict"),
    ],
)
def test_wrong_pairs(donate: Any, text: str) -> None:
    with pytest.raises(intaglio.InputError, match=text):
        intaglio.load(cache_graph(), donate=donate)


def test_a_run_that_fails_is_not_run_again(tmp_path: Path) -> None:
    """An index that is out of range is found when other rows are written: the run raises, whoever runs it."""
    for model in (loaded(), loaded()):  # the second one comes from the cache
        with pytest.raises(intaglio.OperatorError):
            model.run(feeds(place=9))
        model.run(feeds())
        with pytest.raises(intaglio.OperatorError):
            model.run(feeds(place=-9))


def test_copies_and_files_keep_it(tmp_path: Path) -> None:
    model = loaded()
    file = tmp_path / "cache.intaglio"
    model.save_compiled(file)
    others = [pickle.loads(pickle.dumps(model)), intaglio.load(file), intaglio.load(file, donate={"cache": "new"})]
    for other in others:
        given = feeds()
        assert other.run(given)["new"] is given["cache"]
    plain = tmp_path / "plain.intaglio"
    intaglio.load(cache_graph()).save_compiled(plain)
    with pytest.raises(intaglio.InputError, match="compiled without donate"):
        intaglio.load(plain, donate={"cache": "new"})


WARM = """
import sys, numpy as np, intaglio
model = intaglio.load(sys.argv[1], donate={"cache": "new"})
cache = np.zeros((4, 8), np.float32)
new = model.run({"cache": cache, "row": np.ones((1, 8), np.float32), "place": np.array([[1]])})["new"]
assert new is cache and new.sum() == 8
print("intaglio.kernels.lower" in sys.modules)
plain = intaglio.load(sys.argv[1])
cache = np.zeros((4, 8), np.float32)
assert plain.run({"cache": cache, "row": np.ones((1, 8), np.float32), "place": np.array([[1]])})["new"] is not cache
assert cache.sum() == 0
"""


def test_starts_from_the_cache_know_what_is_given_away(tmp_path: Path) -> None:
    loaded().save(tmp_path / "cache.onnx")
    seen = [
        subprocess.run(
            [sys.executable, "-c", WARM, str(tmp_path / "cache.onnx")], capture_output=True, text=True, check=True
        ).stdout.strip()
        for _ in range(2)
    ]
    assert seen[-1] == "False"  # the second process lowers nothing


def test_tensors_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    cache = torch.zeros(4, 8)
    new, total = loaded()(cache, torch.ones(1, 8), torch.tensor([[1]]))
    assert new.data_ptr() == cache.data_ptr()
    assert (float(total), float(cache.sum())) == (8, 8)


def test_narrow_types_and_other_scatters() -> None:
    """TensorScatter and ScatterElements, of a type that the buffer protocol does not know, one behind the other."""
    with build("narrow") as g:
        cache, update = g.input("cache", "bfloat16[B,1,S,4]"), g.input("update", "bfloat16[B,1,1,4]")
        start, place = g.input("start", "int64[B]"), g.input("place", "int64[B,1,1,4]")
        new = ops.TensorScatter(cache, update, start)
        g.output(new=ops.ScatterElements(new, place, update, axis=2))
    model = intaglio.load(g.graph, donate={"cache": "new"})
    assert "in place" in notes(model)
    for _ in range(3):
        cache = np.zeros((2, 1, 5, 4), dtype=tensor(model.inputs[0].type).dtype.numpy)
        update = np.ones((2, 1, 1, 4), cache.dtype)
        given = {"cache": cache, "update": update, "start": np.array([1, 3]), "place": np.full((2, 1, 1, 4), 4)}
        new = model.run(given)["new"]
        assert new is cache
        assert new.astype(np.float32).sum(axis=(1, 3)).tolist() == [[0, 4, 0, 0, 4], [0, 0, 0, 4, 4]]


GUARDED = """
<ir_version: 10, opset_import: ["" : 21]>
guarded (float[n] cache, float[n] row, bool is_wanted) => (float[n] new)
{
    new = If (is_wanted) <
        then_branch = changed () => (float[n] more) { more = Add(cache, row) },
        else_branch = kept () => (float[n] same) { same = Identity(cache) }
    >
}
"""


def test_branches_of_which_one_changes_nothing() -> None:
    model = intaglio.load(onnx.parser.parse_model(GUARDED), donate={"cache": "new"})
    assert "in place" in notes(model)
    assert not [call for call in model.explain().calls if call.title.startswith("copy")]
    for is_wanted, expected in ((True, [3, 3]), (False, [1, 1])):
        cache = np.ones(2, np.float32)
        new = model(cache, np.full(2, 2, np.float32), np.array(is_wanted))
        assert new is cache
        assert new.tolist() == expected


def test_other_outputs_and_pruned_runs() -> None:
    model = loaded()
    given = feeds()
    assert list(model.run(given, outputs=["sum"])) == ["sum"]
    assert given["cache"][2, 0] == 7  # all outputs of the model were computed
    given = feeds()
    assert list(model.run(given, outputs=["sum"], prune=True)) == ["sum"]
    assert given["cache"][2, 0] == 16  # the output that takes the memory was not asked for
