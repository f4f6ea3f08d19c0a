"""The collector of cycles is as it was once models are made, whoever else paused it meanwhile."""

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


def test_an_error_ends_a_pause() -> None:
    gc.enable()
    with pytest.raises(KeyboardInterrupt), garbage.paused():
        raise KeyboardInterrupt
    assert gc.isenabled()


def test_the_last_of_several_threads_ends_it() -> None:
    gc.enable()
    is_inside, may_end = threading.Event(), threading.Event()

    def pause() -> None:
        with garbage.paused():
            is_inside.set()
            may_end.wait(10)

    thread = threading.Thread(target=pause)
    thread.start()
    assert is_inside.wait(10)
    with garbage.paused():
        pass
    assert not gc.isenabled()
    may_end.set()
    thread.join(10)
    assert gc.isenabled()
