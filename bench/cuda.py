"""Models on a CUDA device beside PyTorch: `python -m bench.cuda [--compile] [NAME:TYPE:BATCHES ...]`.

Each model has random weights, is exported by PyTorch, and is loaded with `device="cuda"`. Times are those of the
device, by events: the median of 30 graph launches, inputs in place; torch's are CUDA graphs too (mode
reduce-overhead), channels last for images. The result is compared with PyTorch's in eager mode: the greatest
difference over the greatest number.
"""

from __future__ import annotations

import argparse
import gc
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

TYPES = {"f16": "float16", "f32": "float32", "tf32": "float32"}
DEFAULT = [
    f"{name}:{batches}"
    for name in ("resnet50", "mobilenet_v2", "efficientnet_b0", "vit_b_16", "bert", "gpt2")
    for batches in ("f16:1,32", "tf32:1")
]
REPEATS = 30


def main() -> None:
    """Print a row for each model, type and batch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=DEFAULT)
    parser.add_argument("--compile", action="store_true", help="time torch.compile too, which takes 10 s for each row")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| model | type | batch | ours, ms | torch.compile, ms | torch / ours | first run, s | error |", flush=True)
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for model in options.models:
        name, kind, batches = model.split(":")
        for batch in map(int, batches.split(",")):
            try:
                print(row(name, kind, batch, with_torch=options.compile), flush=True)
            except Exception as error:  # a row that fails is shown, and others go on
                print(f"| {name} | {kind} | {batch} | {type(error).__name__}: {str(error)[:200]} |", flush=True)


def row(name: str, kind: str, batch: int, *, with_torch: bool) -> str:
    """One line of the table."""
    import torch

    module, inputs = _made(name, getattr(torch, TYPES[kind]), batch)
    model_bytes = _exported(module, inputs)
    begin = time.perf_counter()
    ours, found = _ours(model_bytes, [each.numpy() for each in inputs], kind)
    first = time.perf_counter() - begin
    module, given = module.cuda(), [each.cuda() for each in inputs]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = kind == "tf32"
    with torch.no_grad():
        wanted = module(*given).double().cpu().numpy()
        theirs = _torch_ms(module, given) if with_torch else None
    error = float(np.abs(found.astype(np.float64) - wanted).max() / max(1e-9, np.abs(wanted).max()))
    beside = f"{theirs:.3f} | {theirs / ours:.2f}" if theirs is not None else " | "
    return f"| {name} | {kind} | {batch} | {ours:.3f} | {beside} | {first:.2f} | {error:.0e} |"


def _made(name: str, dtype: Any, batch: int) -> tuple[Any, list[Any]]:
    import torch

    torch.manual_seed(0)
    if name in ("bert", "gpt2"):
        return _words(name).eval().to(dtype), [torch.randint(0, 30000, (batch, 128 if name == "bert" else 64))]
    import torchvision  # pyright: ignore[reportMissingImports]

    module = getattr(torchvision.models, name)(weights=None).eval()
    for each in module.modules():
        if isinstance(each, torch.nn.BatchNorm2d):
            assert each.running_mean is not None
            assert each.running_var is not None
            each.running_mean.normal_(0, 0.1)
            each.running_var.uniform_(0.5, 1.5)
        if isinstance(each, torch.nn.Linear):
            torch.nn.init.normal_(each.weight, std=0.02)
    return module.to(dtype), [torch.randn(batch, 3, 224, 224).to(dtype)]


def _words(name: str) -> Any:
    import torch
    import transformers

    plain: dict[str, Any] = {"attn_implementation": "eager"}
    if name == "bert":
        inner = transformers.BertModel(transformers.BertConfig(**plain))
    else:
        inner = transformers.GPT2Model(transformers.GPT2Config(use_cache=False, **plain))

    class Words(torch.nn.Module):
        """A model of words that takes their numbers and gives their last states."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, words: Any) -> Any:
            """The last states."""
            return self.inner(input_ids=words)[0]

    return Words()


def _exported(module: Any, inputs: list[Any]) -> bytes:
    import torch

    with torch.no_grad():
        program = torch.onnx.export(module, tuple(inputs), dynamo=True, verbose=False)
    assert program is not None
    return program.model_proto.SerializeToString()


def _ours(model: bytes, inputs: list[Any], kind: str) -> tuple[float, Any]:
    """Milliseconds on the device, and the first output."""
    import intaglio
    from intaglio.targets.cuda.device import device
    from intaglio.targets.cuda.segment import DeviceStep

    loaded = intaglio.load(model, device="cuda", tf32=kind == "tf32")
    results = [loaded(*inputs) for _ in range(4)]
    found = results[-1][0] if isinstance(results[-1], (tuple, list)) else results[-1]
    step = next(each for each in gc.get_objects() if type(each) is DeviceStep)
    graph = step.graphs()[-1]
    times: list[float] = []
    for _ in range(REPEATS):
        with device(0).timed(times):
            graph.launch()
    del loaded, step, graph
    gc.collect()
    return sorted(times)[REPEATS // 2], np.asarray(found)


def _torch_ms(module: Any, inputs: list[Any]) -> float:
    """Milliseconds of torch.compile on the device."""
    import torch

    if inputs[0].dim() == 4:
        module, inputs = module.to(memory_format=torch.channels_last), [inputs[0].to(memory_format=torch.channels_last)]
    torch.compiler.reset()
    compiled: Callable[..., Any] = torch.compile(module, mode="reduce-overhead")
    for _ in range(4):
        compiled(*inputs)
    times: list[float] = []
    for _ in range(REPEATS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        compiled(*inputs)
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return sorted(times)[REPEATS // 2]


if __name__ == "__main__":
    main()
