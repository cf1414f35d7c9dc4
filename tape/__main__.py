"""`python -m tape play BUNDLE`: the same as `lucius tape play BUNDLE`, which runs in any folder."""

from __future__ import annotations

import argparse
import sys

from tape import command


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tape", description=command.HELP)
    command.add_arguments(parser)
    return command.run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
