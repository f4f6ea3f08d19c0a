"""The collector of cycles is as it was once models are made."""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator

import pytest

from intaglio import garbage


@pytest.fixture(autouse=True)
def collector() -> Generator[None]:
    was_enabled = gc.isenabled()
    yield
    (gc.enable if was_enabled else gc.disable)()


@pytest.mark.parametrize("is_enabled", [True, False])
def test_pauses_are_nested_and_end_as_it_was(is_enabled: bool) -> None:
    (gc.enable if is_enabled else gc.disable)()
    with garbage.paused():
        with garbage.paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled() == is_enabled


def test_an_interrupt_ends_a_pause() -> None:
    gc.enable()
    with pytest.raises(KeyboardInterrupt), garbage.paused():
        raise KeyboardInterrupt
    assert gc.isenabled()


def test_other_threads_pause_nothing() -> None:
    gc.enable()
    seen: list[bool] = []

    def make() -> None:
        with garbage.paused():
            seen.append(gc.isenabled())

    thread = threading.Thread(target=make)
    thread.start()
    thread.join(10)
    assert seen == [True]
