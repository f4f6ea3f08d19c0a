"""The command line `intaglio`: one file a command."""

from intaglio.cli.app import main as main
