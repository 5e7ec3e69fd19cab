"""The command line: one file a command, no logic."""

from rrise.cli.app import main

__all__ = ["main"]
