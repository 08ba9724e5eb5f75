"""The command line: parses, calls, prints. No command imports torch before it needs it."""

from clearhead.cli.app import main

__all__ = ["main"]
