"""What the device runs for a kernel of a plan: its text, which of its variants suits some sizes, and its arguments."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Protocol

from intaglio.errors import UnsupportedError
from intaglio.kernels.kernel import FileKernel, Kernel, LibraryCall, SourceKernel
from intaglio.kernels.language import LoopKernel
from intaglio.targets.c.kernel_file import instance
from intaglio.targets.cuda.expression import DeviceHelpers
from intaglio.targets.cuda.printing import Launch, entry, launch, printed
from intaglio.targets.plain.one_lane import PLAIN_FOLDER, Signature, file_text, function_text, signature_of
from intaglio.targets.plain.preprocessor import identifiers, tokens_of

TASK_THREADS = 128
"""The threads of a block in which each has tasks of its own."""
MOST_SCRATCH = 1 << 28
"""How many bytes of scratch memory the threads of a kernel may have together."""


@dataclass(frozen=True)
class Work:
    """A call whose sizes are known: addresses and sizes of its kernel, and how much there is to do."""

    addresses: Sequence[int]
    sizes: Mapping[str, int]
    tasks: int
    scratch: int
    most_blocks: int


class DeviceFunction(Protocol):
    """A kernel's code on the device."""

    @property
    def text(self) -> str:
        """CUDA C++ that declares `Arguments` and what its entries call."""
        ...

    def entry(self, variant: str, name: str) -> str:
        """The function by which a variant is started."""
        ...

    def launch(self, work: Work) -> Launch | None:
        """The variant for some work, and its threads; None where there is nothing to do."""
        ...

    def scratch(self, work: Work, launch: Launch) -> int:
        """The bytes of scratch memory that a launch needs."""
        ...

    def arguments(self, work: Work, scratch: int) -> bytes:
        """The bytes of `Arguments`; `scratch` is where scratch memory lies."""
        ...


@dataclass(frozen=True)
class LoopFunction:
    """A kernel of the neutral language."""

    kernel: LoopKernel

    @property
    def text(self) -> str:
        """See `DeviceFunction`."""
        return printed(self.kernel).text

    def entry(self, variant: str, name: str) -> str:
        """See `DeviceFunction`."""
        return entry(variant, name)

    def launch(self, work: Work) -> Launch | None:
        """See `DeviceFunction`."""
        return launch(self.kernel, work.sizes, work.addresses, work.most_blocks)

    def scratch(self, work: Work, launch: Launch) -> int:
        """No scratch memory: rows are computed again."""
        return 0

    def arguments(self, work: Work, scratch: int) -> bytes:
        """See `DeviceFunction`."""
        numbers = [work.sizes[name] for name in self.kernel.sizes]
        return struct.pack(f"<{len(work.addresses)}Q{len(numbers)}q", *work.addresses, *numbers)


@dataclass(frozen=True)
class TaskFunction:
    """A kernel that is a function of C over ranges of tasks; a thread has one task after the other."""

    body: str
    buffers: int
    sizes: tuple[str, ...]

    @property
    def text(self) -> str:
        """See `DeviceFunction`."""
        arguments = (
            "struct Arguments {",
            f"    AnyPointer buffer[{max(1, self.buffers)}];",
            f"    int64_t size[{max(1, len(self.sizes))}], tasks, scratch_bytes;",
            "    char *scratch;",
            "};",
        )
        return "\n".join([self.body, *arguments, ""])

    def entry(self, variant: str, name: str) -> str:
        """See `DeviceFunction`."""
        return (
            f'extern "C" __global__ void {name}(const __grid_constant__ Arguments a)\n{{\n'
            "    const int64_t thread = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;\n"
            "    for (int64_t task = thread; task < a.tasks; task += gridDim.x * (int64_t)blockDim.x)\n"
            "        IG_FUNCTION(a.buffer, a.size, task, task + 1, AnyPointer{a.scratch + thread * a.scratch_bytes});\n"
            "}\n"
        )

    def launch(self, work: Work) -> Launch | None:
        """See `DeviceFunction`."""
        if work.tasks <= 0:
            return None
        threads = min(TASK_THREADS, work.tasks)
        blocks = max(1, min(-(-work.tasks // threads), work.most_blocks))
        if work.scratch:
            blocks = max(1, min(blocks, MOST_SCRATCH // (work.scratch * threads)))
        return Launch("tasks", blocks, threads)

    def scratch(self, work: Work, launch: Launch) -> int:
        """See `DeviceFunction`."""
        return launch.blocks * launch.threads * _aligned(work.scratch)

    def arguments(self, work: Work, scratch: int) -> bytes:
        """See `DeviceFunction`."""
        numbers = [work.sizes[name] for name in self.sizes] or [0]
        pointers = list(work.addresses) or [0]
        form = f"<{len(pointers)}Q{len(numbers) + 2}qQ"
        return struct.pack(form, *pointers, *numbers, work.tasks, _aligned(work.scratch), scratch)


def _aligned(size: int) -> int:
    return -(-size // 16) * 16


@dataclass(frozen=True)
class SerialFunction:
    """A function of plain C that does all by itself, on one thread."""

    kernel: FileKernel

    @property
    def signature(self) -> Signature:
        """The function's parameters."""
        signature = signature_of(self.kernel)
        assert signature is not None
        return signature

    @property
    def text(self) -> str:
        """See `DeviceFunction`."""
        helpers = DeviceHelpers()
        body = function_text(self.kernel, "run", {})
        for name in identifiers(tokens_of(body)):
            helpers.ask(name)
        fields = [f"    {each.element} *{each.name};" for each in self.signature.buffers]
        fields += [f"    int64_t {name};" for name in self.signature.sizes]
        return "\n".join([helpers.text, "struct Arguments {", *fields, "};", body, ""])

    def entry(self, variant: str, name: str) -> str:
        """See `DeviceFunction`."""
        names = [*(each.name for each in self.signature.buffers), *self.signature.sizes]
        given = ", ".join(f"a.{each}" for each in names)
        return f'extern "C" __global__ void {name}(const __grid_constant__ Arguments a)\n{{\n    run({given});\n}}\n'

    def launch(self, work: Work) -> Launch | None:
        """See `DeviceFunction`."""
        return Launch("serial", 1, 1)

    def scratch(self, work: Work, launch: Launch) -> int:
        """See `DeviceFunction`."""
        return 0

    def arguments(self, work: Work, scratch: int) -> bytes:
        """See `DeviceFunction`."""
        numbers = [work.sizes[name] for name in self.signature.sizes]
        return struct.pack(f"<{len(work.addresses)}Q{len(numbers)}q", *work.addresses, *numbers)


ATTENTION = "attention"
"""The name of the kernel that computes attention of 16-bit floats."""
_QUERIES = 64


@dataclass(frozen=True)
class AttentionFunction:
    """Attention of 16-bit floats, from a file of the device's own."""

    call: LibraryCall

    @property
    def text(self) -> str:
        """See `DeviceFunction`."""
        form = dict(self.call.parameters)
        format = "f16" if form["element"] == "float16" else "bf16"
        mask = str(form["mask"])
        apply = {"": "", "bool": "(m ? x : -INFINITY)", "float32": "(x + m)"}.get(
            mask, f"(x + f32_from_{_HALVES.get(mask)}(m))"
        )
        element = {"bool": "uint8_t", "float32": "float"}.get(mask, "uint16_t")
        lines = [
            f"#define HEAD {form['head']}", f'#define FORMAT "{format}"', f"#define TO_HALF {format}_from_f32",
            f"#define HAS_MASK {int(bool(mask))}", f"#define MASK {element}", f"#define APPLY(x, m) {apply or 'x'}",
        ]  # fmt: skip
        ends = [f"#undef {line.split()[1].partition('(')[0]}" for line in lines]
        return "\n".join([*lines, _kernel_file("attention"), *ends, ""])

    def entry(self, variant: str, name: str) -> str:
        """See `DeviceFunction`."""
        call = f"attention<{'true' if variant == 'even' else 'false'}>(a);"
        head = f'extern "C" __global__ void __launch_bounds__(128) {name}(const __grid_constant__ Arguments a)'
        return f"{head}\n{{\n    {call}\n}}\n"

    def launch(self, work: Work) -> Launch | None:
        """See `DeviceFunction`."""
        size = work.sizes
        blocks = -(-size["queries"] // _QUERIES) * size["heads"] * size["batch"]
        steps = [size[name] for name in ("k_batch", "k_head", "k_row", "v_batch", "v_head", "v_row")]
        is_even = all(step % 8 == 0 for step in steps) and all(address % 16 == 0 for address in work.addresses[1:3])
        return Launch("even" if is_even else "any", blocks, 128) if blocks > 0 else None

    def scratch(self, work: Work, launch: Launch) -> int:
        """No scratch memory: scores stay in registers."""
        return 0

    def arguments(self, work: Work, scratch: int) -> bytes:
        """See `DeviceFunction`."""
        size = dict(work.sizes)
        size["blocks"] = -(-size["queries"] // _QUERIES)
        names = ["heads", "share", "queries", "keys", "blocks", "is_causal"]
        names += [f"{tensor}_{axis}" for tensor in "qkvy" for axis in ("batch", "head", "row")]
        names += [f"mask_{axis}" for axis in ("batch", "head", "row", "column")]
        numbers = [size[name] for name in names]
        (scale,) = struct.unpack("<q", struct.pack("<d", float(str(dict(self.call.parameters)["scale"]))))
        return struct.pack(f"<{len(work.addresses)}Q{len(numbers) + 1}q", *work.addresses, *numbers, scale)


_HALVES = {"float16": "f16", "bfloat16": "bf16"}


@cache
def _kernel_file(name: str) -> str:
    return (Path(__file__).parent / "kernels" / f"{name}.cuh").read_text(encoding="ascii")


@lru_cache(maxsize=1024)
def function_of(kernel: Kernel) -> DeviceFunction:
    """The code of a kernel on the device; raises UnsupportedError where it has none."""
    body = kernel.body
    if isinstance(body, LoopKernel):
        printed(body)
        return LoopFunction(body)
    if isinstance(body, LibraryCall) and body.name == ATTENTION:
        return AttentionFunction(body)
    if isinstance(body, FileKernel) and body.epilogue is None:
        return _task_function(body) if signature_of(body) is None else SerialFunction(body)
    if isinstance(body, SourceKernel):
        return _framed(body)
    raise UnsupportedError(f"the kernel {kernel.hint} is not written for CUDA")


def _task_function(kernel: FileKernel) -> TaskFunction:
    """A file of C over vectors of one element, with pointers that C++ takes."""
    own, helpers = instance(kernel, PLAIN_FOLDER), DeviceHelpers()
    text = file_text(kernel, "IG_FUNCTION", helpers)
    text = re.sub(r"\bvoid \*const \*buffer\b", "const AnyPointer *buffer", text)
    text = re.sub(r"\bvoid \*scratch\b", "AnyPointer scratch", text)
    return TaskFunction(f"{helpers.text}\n{text}", len(own.buffers), own.sizes)


def _framed(kernel: SourceKernel) -> TaskFunction:
    """Statements about one task in a function that declares the buffers and sizes that they use."""
    given = "const AnyPointer *buffer, const int64_t *size, int64_t begin, int64_t end, AnyPointer scratch"
    head = f"static inline void IG_FUNCTION({given})"
    lines = [f"/* {kernel.about} */", head, "{"]
    for index, each in enumerate(kernel.buffers):
        lines.append(f"    {'' if each.is_written else 'const '}{each.element} *const {each.name} = buffer[{index}];")
    if kernel.checks:
        lines.append(f"    int64_t *const fault = buffer[{len(kernel.buffers)}];")
    lines += [f"    const int64_t {name} = size[{index}];" for index, name in enumerate(kernel.sizes)]
    return TaskFunction("\n".join([*lines, kernel.text, "}", ""]), len(kernel.buffers) + kernel.checks, kernel.sizes)
