"""The shells that the command line can be completed in."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from intaglio.cli.options import Argument


class Shell(StrEnum):
    """A shell."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


ShellArgument = Annotated[Shell, Argument("{bash,zsh,fish}", "The shell.")]
