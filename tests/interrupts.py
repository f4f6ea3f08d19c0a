"""Interrupts, which a shell has its children in the background ignore, and which they hand on to theirs."""

import signal


def restore_interrupts() -> None:
    """Let this process, and so those that it starts, be interrupted; the tests of Ctrl-C need that."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
