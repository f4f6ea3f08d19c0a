"""Python's collector of cyclic garbage, paused while models are made.

Making a model creates many objects and hardly any cycles. A collection in the middle of it looks through all objects of
the process; beside PyTorch, which has 400,000, one was measured to take 0.2 s, a tenth of the first call of a network.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def paused() -> Generator[None]:
    """Collect nothing meanwhile; then as before. Only the main thread pauses: what runs beside others needs it."""
    if threading.current_thread() is not threading.main_thread() or not gc.isenabled():
        yield
        return
    try:
        gc.disable()
        yield
    finally:
        gc.enable()
