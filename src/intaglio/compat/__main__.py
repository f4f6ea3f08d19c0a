"""`python -m intaglio.compat SCRIPT ARGUMENTS`: run a program whose `onnxruntime` is Intaglio."""

from __future__ import annotations

import os
import runpy
import sys

from intaglio.compat.standin import install


def main() -> None:
    """Install the stand-in and run a script, or with `-m` a module."""
    arguments = sys.argv[1:]
    if not arguments or arguments in (["-h"], ["--help"], ["-m"]):
        print("usage: python -m intaglio.compat (SCRIPT | -m MODULE) [ARGUMENTS]", file=sys.stderr)
        raise SystemExit(2)
    install()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
