"""An interpreter of a Turing-complete language as one ONNX model: Brainfuck inside a Loop.

The model takes a program and its input as bytes and gives what the program prints. Nothing in it bounds the steps or
the memory: the Loop has no trip count, and the tape grows by a cell whenever the head leaves it, at either end.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import intaglio
from intaglio import ops

HELLO = "++++++++[>++++[>++>+++>+++>+<<<<-]>+>+>->>+[<]<-]>>.>---.+++++++..+++.>>.<-.<.+++.------.--------.>>+.>++."


def partners(program: Any) -> Any:
    """For each bracket of the program the place of the one that it belongs to.

    Both brackets of a pair have the same depth: the brackets opened so far less those closed before.
    """
    opens, closes = (ops.Cast(ops.Equal(program, ord(sign)), to=np.int64) for sign in "[]")
    depth = ops.CumSum(opens, 0) - ops.CumSum(closes, 0, exclusive=1)
    is_level = ops.Equal(ops.Unsqueeze(depth, [1]), ops.Unsqueeze(depth, [0]))
    place = ops.CumSum(ops.Cast(program >= 0, to=np.int64), 0, exclusive=1)
    is_later = ops.Unsqueeze(place, [0]) > ops.Unsqueeze(place, [1])
    ahead = ops.And(ops.And(is_level, is_later), ops.Cast(closes, to=bool))
    behind = ops.And(ops.And(is_level, ops.Not(is_later)), ops.Cast(opens, to=bool))
    first, last = (ops.Cast(found, to=np.int32) for found in (ahead, behind))
    after = ops.ArgMax(first, axis=1, keepdims=0)
    return ops.Where(ops.Cast(opens, to=bool), after, ops.ArgMax(last, axis=1, keepdims=0, select_last_index=1))


def interpreter() -> intaglio.ModelBuilder:
    """The model: (program, input) -> (output, memory, steps)."""
    with intaglio.build("brainfuck", inputs={"program": "int64[P]", "input": "int64[I]"}) as g:
        ended, given = (ops.Concat(g[name], np.array([0], np.int64), axis=0) for name in ("program", "input"))
        jump, length, given_length = partners(ended), ops.Size(g["program"]), ops.Size(g["input"])
        state = {"at": "int64[]", "head": "int64[]", "read": "int64[]", "done": "int64[]"}
        store = {"tape": "int64[T]", "printed": "int64[O]"}
        with g.body("step", inputs={"round": "int64[]", "goes_on": "bool[]", **state, **store}) as step:
            at, head, read, done, tape, printed = (step[name] for name in (*state, *store))
            sign = ops.Gather(ended, at)
            is_sign = {char: ops.Equal(sign, ord(char)) for char in "><+-.,[]"}
            flag = {char: ops.Cast(found, to=np.int64) for char, found in is_sign.items()}

            cell = ops.Gather(tape, head)
            typed = ops.Gather(given, ops.Min(read, given_length))  # behind its end the input reads as 0
            changed = ops.Mod(cell + flag["+"] - flag["-"], 256)
            changed = ops.Where(is_sign[","], typed, changed)
            place, value = (ops.Unsqueeze(item, [0]) for item in (head, changed))
            tape = ops.ScatterElements(tape, place, value)
            printed = ops.Concat(printed, ops.Slice(value, [0], ops.Unsqueeze(flag["."], [0])), axis=0)

            moved = head + flag[">"] - flag["<"]
            before, behind = (ops.Cast(out, to=np.int64) for out in (moved < 0, ops.Equal(moved, ops.Size(tape))))
            tape = ops.Pad(tape, ops.Concat(*(ops.Unsqueeze(count, [0]) for count in (before, behind)), axis=0))

            is_zero = ops.Equal(cell, 0)
            skips, repeats = ops.And(is_sign["["], is_zero), ops.And(is_sign["]"], ops.Not(is_zero))
            target = ops.Where(ops.Or(skips, repeats), ops.Gather(jump, at), at) + 1
            step.output(target < length, target, moved + before, read + flag[","], done + 1, tape, printed)
        zero, empty = np.int64(0), np.zeros(0, np.int64)
        start = [zero, zero, zero, zero, np.zeros(1, np.int64), empty]
        _, _, _, steps, tape, printed = ops.Loop(None, length > 0, *start, body=step, outputs=6)
        g.output(output=printed, memory=tape, steps=steps)
    return g


def run(model: Any, program: str, given: str = "") -> tuple[str, int]:
    """What a program prints, and in how many steps."""
    program = "".join(char for char in program if char in "><+-.,[]")
    texts = (np.frombuffer(text.encode("latin-1"), np.uint8).astype(np.int64) for text in (program, given))
    printed, _, steps = model(*texts)
    return bytes(printed.astype(np.uint8)).decode("latin-1"), int(steps)


if __name__ == "__main__":
    text, steps = run(interpreter().model(), sys.argv[1] if len(sys.argv) > 1 else HELLO, "".join(sys.argv[2:]))
    print(text, end="")
    print(f"({steps} steps)")
