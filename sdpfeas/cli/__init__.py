"""The command line, ``sdpfeas``."""

from sdpfeas.cli.app import main

__all__ = ["main"]
