"""The `host` subcommand."""

from __future__ import annotations

import argparse

HELP = "not written yet"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""


def run(args: argparse.Namespace) -> int:
    raise NotImplementedError
