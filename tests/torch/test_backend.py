"""`torch.compile(..., backend="intaglio")`: results, gradients, sizes, what is left to PyTorch and told."""

from __future__ import annotations

import copy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from intaglio import Model, load  # noqa: E402
from intaglio.torch import backend, report  # noqa: E402

nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.usefixtures("fresh")

ROOT = Path(__file__).parents[2]


def compiled(module: Any, **named: Any) -> Any:
    return torch.compile(module, backend=backend, **named)


def close(found: Any, expected: Any, tolerance: float = 1e-4) -> None:
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def mlp() -> Any:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def frames() -> int:
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def test_inference_with_any_batch_compiles_once() -> None:
    net = mlp().eval()
    fast = compiled(net, dynamic=True)
    with torch.no_grad():
        for batch in (3, 5, 8):
            x = torch.randn(batch, 6)
            close(fast(x), net(x))
    assert frames() == 1
    (graph,) = report().graphs
    assert graph.kind == "inference"
    assert graph.models == 1
    assert graph.eager == ()


def test_training_updates_weights_in_place() -> None:
    net = mlp()
    twin = copy.deepcopy(net)
    fast = compiled(net, dynamic=True)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (net, twin)]
    for batch in (4, 6, 4):
        x = torch.randn(batch, 6)
        for run, optimizer in ((fast, optimizers[0]), (twin, optimizers[1])):
            optimizer.zero_grad()
            run(x).square().mean().backward()
            optimizer.step()
    for mine, theirs in zip(net.parameters(), twin.parameters(), strict=True):
        close(mine, theirs)
    assert {graph.kind for graph in report().graphs} == {"forward", "backward"}


@pytest.mark.parametrize("write", ["no_grad", "data", "load_state_dict"])
def test_written_weights_are_seen_by_the_next_call(write: str) -> None:
    net = mlp().eval()
    fast = compiled(net)
    x = torch.randn(3, 6)
    with torch.no_grad():
        fast(x)
        if write == "data":
            net[0].weight.data.mul_(2)
        elif write == "no_grad":
            net[0].weight.mul_(2)
        else:
            net.load_state_dict({name: value * 2 for name, value in net.state_dict().items()})
        close(fast(x), net(x))


def test_statistics_and_masks_are_those_of_eager() -> None:
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.4), nn.Linear(8, 3))
    twin = copy.deepcopy(net)
    fast = compiled(net, dynamic=True)
    x = torch.randn(7, 6)
    found = []
    for run in (fast, twin):
        torch.manual_seed(3)
        y = run(x)
        y.sum().backward()
        found.append(y)
    close(*found)
    for mine, theirs in zip(net.buffers(), twin.buffers(), strict=True):
        close(mine, theirs)
    assert set(report().eager) == {"aten.bernoulli.p", "aten.empty.memory_format"}
    assert [graph.models for graph in report().graphs] == [1, 1]


def test_what_we_lack_runs_in_pytorch_and_is_told() -> None:
    def f(x: Any) -> Any:
        y = torch.linalg.svdvals(torch.relu(x) @ x.T)
        return y.cumsum(0) * 2

    x = torch.randn(4, 4)
    close(compiled(f)(x), f(x), 1e-3)
    (graph,) = report().graphs
    assert graph.models == 2
    assert [name for name, _ in graph.eager] == ["aten._linalg_svd.default"]
    assert "PyTorch has LAPACK" in str(report())


def test_graph_breaks_are_no_trouble() -> None:
    def f(x: Any) -> Any:
        y = x.sin() + 1
        torch._dynamo.graph_break()
        return y * x.cos()

    x = torch.randn(5)
    close(compiled(f)(x), f(x))
    assert len(report().graphs) == 2


@pytest.mark.parametrize("is_training", [False, True])
def test_channels_last_in_and_out(is_training: bool) -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 5, 3))
    net = net.to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 7, 6).to(memory_format=torch.channels_last)
    fast = compiled(net)
    x.requires_grad_(is_training)
    with torch.set_grad_enabled(is_training):
        y, expected = fast(x), net(x)
        close(y, expected)
        assert y.stride() == expected.stride()
        close(y.permute(0, 2, 3, 1).flatten(), expected.permute(0, 2, 3, 1).flatten())
        if is_training:
            (gradient,) = torch.autograd.grad(y.square().sum(), x)
            close(gradient, torch.autograd.grad(net(x).square().sum(), x)[0], 1e-3)


def test_views_scalars_and_nothing_among_the_outputs() -> None:
    def f(x: Any, flag: bool, scale: float) -> Any:
        y = x * scale if flag else x
        return {"y": y.t(), "first": x[0], "none": None, "size": x.shape[0], "pair": (y.sum(), y > 0)}

    x = torch.randn(3, 4)
    fast = compiled(f, dynamic=True)
    for flag, scale in ((True, 2.5), (False, 1.0), (True, 0.5)):
        found, expected = fast(x, flag, scale), f(x, flag, scale)
        close(found["y"], expected["y"])
        close(found["first"], expected["first"])
        close(found["pair"][0], expected["pair"][0])
        assert torch.equal(found["pair"][1], expected["pair"][1])
        assert (found["none"], found["size"]) == (None, 3)


def test_arguments_that_are_written_to() -> None:
    def f(x: Any, y: Any) -> Any:
        x.add_(1)
        y[:, 0] = x.sum(1)
        return x * y

    given = [torch.randn(3, 4), torch.randn(3, 4)]
    twins = [each.clone() for each in given]
    close(compiled(f)(*given), f(*twins))
    for mine, theirs in zip(given, twins, strict=True):
        close(mine, theirs)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "int64", "bool", "uint8", "int32"])
def test_element_types(dtype: str) -> None:
    kind = getattr(torch, dtype)

    def f(x: Any, y: Any) -> Any:
        return torch.where(x > y, x, y), x + 1, x * y, (x == y).any(), x.sum(0)

    x, y = (torch.randint(0, 3, (4, 5)).to(kind) for _ in range(2))
    for found, expected in zip(compiled(f)(x, y), f(x, y), strict=True):
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected)


def test_autocast() -> None:
    net = mlp().eval()
    x = torch.randn(4, 6)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        found, expected = compiled(net)(x), net(x)
    assert found.dtype == expected.dtype == torch.bfloat16
    close(found.float(), expected.float(), 3e-2)


def test_sizes_that_no_tensor_has() -> None:
    def f(x: Any, n: int) -> Any:
        return torch.cat([x, torch.ones(n, x.shape[1] * 2)[:, : x.shape[1]]]).sum(0) + n

    fast = compiled(f, dynamic=True)
    for rows, n in ((3, 2), (4, 5), (6, 7)):
        x = torch.randn(rows, 3)
        close(fast(x, n), f(x, n))


def test_sizes_that_data_tells() -> None:
    def f(x: Any) -> Any:
        return torch.nonzero(x > 0).float() * 2

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        fast = compiled(f)
        for seed in (1, 2):
            torch.manual_seed(seed)
            x = torch.randn(6, 4)
            close(fast(x), f(x))


def test_threads_follow_pytorch() -> None:
    net = mlp().eval()
    fast = compiled(net)
    x = torch.randn(64, 6)
    before = torch.get_num_threads()
    try:
        with torch.no_grad():
            expected = fast(x)
            torch.set_num_threads(1)
            assert torch.equal(fast(x), expected)
    finally:
        torch.set_num_threads(before)


def test_options_are_obeyed() -> None:
    x = torch.randn(3, 6)
    net = mlp().eval()
    with torch.no_grad():
        fast = compiled(net, options={"engine": "reference", "eager": ["aten.tanh.default"]})
        close(fast(x), net(x))
    assert report().eager == {"aten.tanh.default": "it was left out by the options"}


def test_frozen_weights_are_packed_anew_where_they_change() -> None:
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).eval()
    fast = compiled(net, dynamic=True, options={"freeze": True})
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with torch.no_grad():
        for batch in (3, 5, 5):
            x = torch.randn(batch, 6)
            close(fast(x), net(x))
    for change in (optimizer.step, lambda: net.load_state_dict({k: v * 2 for k, v in net.state_dict().items()})):
        net(torch.randn(4, 6)).sum().backward()
        change()
        with torch.no_grad():
            x = torch.randn(4, 6)
            close(fast(x), net(x))
    net[0].weight = nn.Parameter(torch.randn(8, 6))
    with torch.no_grad():
        close(fast(x), net(x))


@pytest.mark.parametrize("given", [{}, {"quick": False}])
def test_the_compiler_is_quick_unless_it_shall_not(given: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    models: list[Model] = []

    def watched(graph: Any, **named: Any) -> Model:
        models.append(load(graph, **named))
        return models[-1]

    monkeypatch.setattr(sys.modules["intaglio.torch.backend"], "load", watched)
    net, x = mlp(), torch.randn(3, 6)
    close(compiled(net, options=given)(x), net(x))
    assert models
    assert all(model.options.quick == (not given) for model in models)


def test_unknown_options_are_refused() -> None:
    with pytest.raises(Exception, match="there is no option 'speed'"):
        compiled(mlp(), options={"speed": 11})(torch.randn(3, 6))


def test_modes_of_inductor_are_refused() -> None:
    with pytest.raises(Exception, match="mode='reduce-overhead' is a setting of inductor"):
        compiled(mlp(), mode="reduce-overhead")(torch.randn(3, 6))
    x, net = torch.randn(3, 6), mlp()
    close(compiled(net, mode="default")(x), net(x))


def test_no_fallback_where_none_is_wanted() -> None:
    fast = compiled(torch.linalg.svdvals, options={"fallback": False})
    with pytest.raises(Exception, match=r"aten\._linalg_svd\.default.*PyTorch has LAPACK"):
        fast(torch.randn(3, 3))


@pytest.mark.slow
def test_the_entry_point_is_found_by_name(tmp_path: Path) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["torch_dynamo_backends"]
    folder = tmp_path / "shop-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n")
    lines = [f"{name} = {target}" for name, target in declared.items()]
    (folder / "entry_points.txt").write_text("[torch_dynamo_backends]\n" + "\n".join(lines) + "\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import torch\n"
        "f = torch.compile(lambda x: x.sin() * 2, backend='intaglio')\n"
        "assert 'intaglio' in torch._dynamo.list_backends()\n"
        "torch.testing.assert_close(f(torch.ones(3)), torch.ones(3).sin() * 2)\n"
        "import intaglio.torch; print(len(intaglio.torch.report().graphs))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "1", ran.stderr


def test_importing_intaglio_does_not_import_pytorch() -> None:
    code = "import intaglio, sys; intaglio.load; intaglio.Model; print('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
