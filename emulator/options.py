"""Types of command line options that several programs share."""

from __future__ import annotations

import argparse


def port(text: str) -> int:
    """Parses a port number. Raises ArgumentTypeError for any other text."""
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number <= 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (0 to 65535; 0 for a free port)")
    return number


def positive(text: str) -> int:
    """Parses a whole number of at least 1. Raises ArgumentTypeError for any other text."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number
