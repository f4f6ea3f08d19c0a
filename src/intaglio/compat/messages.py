"""What sessions tell on stderr, and who wants to hear it."""

from __future__ import annotations

import sys

from intaglio.errors import InputError

VERBOSE, INFO, WARNING = 0, 1, 2
_LEVELS = range(5)


class _Default:
    """What holds where a session's or run's own options say nothing."""

    severity = WARNING
    verbosity = 0


_default = _Default()


def set_default_logger_severity(severity: int) -> None:
    """How much sessions tell that do not say it: 0 each run, 1 each session, 2 what is missing, 3 and 4 nothing."""
    if severity not in _LEVELS:
        raise InputError(f"the severity is {severity!r}, expected a number from 0 to 4")
    _default.severity = int(severity)


def set_default_logger_verbosity(verbosity: int) -> None:
    """From 1 on, sessions of severity 0 show their kernels, and their runs the shapes of inputs."""
    _default.verbosity = int(verbosity)


def is_told(level: int, severity: int) -> bool:
    """Whether a severity asks for lines of a level; -1 is the default."""
    return level >= (severity if severity >= 0 else _default.severity)


def tell(text: str, level: int, severity: int = -1, logid: str = "") -> None:
    """One line on stderr, where the severity asks for lines of this level."""
    if is_told(level, severity):
        print(f"intaglio: {f'[{logid}] ' if logid else ''}{text}", file=sys.stderr)


def is_verbose(severity: int, verbosity: int) -> bool:
    """Whether all that can be told is wanted."""
    return is_told(VERBOSE, severity) and max(verbosity, _default.verbosity) > 0
