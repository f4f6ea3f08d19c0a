"""Places of buffers in device memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from intaglio.memory.arena import Layout
from intaglio.targets.cuda.arena import ALIGNMENT, places

SPANS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8), st.integers(0, 5000)), min_size=1, max_size=30)


@given(SPANS)
def test_buffers_that_live_together_share_no_byte(spans: list[tuple[int, int, int]]) -> None:
    first = [start for start, _, _ in spans]
    last = [start + length for start, length, _ in spans]
    sizes = [size for _, _, size in spans]
    offsets, total = places(Layout(list(range(len(spans))), first, last), sizes)
    assert all(offset % ALIGNMENT == 0 and offset + size <= total for offset, size in zip(offsets, sizes, strict=True))
    for one in range(len(spans)):
        for other in range(one):
            is_together = first[one] <= last[other] and first[other] <= last[one]
            is_apart = offsets[one] + sizes[one] <= offsets[other] or offsets[other] + sizes[other] <= offsets[one]
            assert is_apart or not is_together


def test_what_lives_after_another_takes_its_place() -> None:
    offsets, total = places(Layout([0, 1, 2], [0, 1, 2], [0, 1, 2]), [1000, 800, 600])
    assert offsets == [0, 0, 0]
    assert total == 1024
