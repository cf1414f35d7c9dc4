"""`lucius completion`: the script that makes a shell complete commands and options."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from typer._completion_shared import get_completion_script

PROGRAM = "lucius"
#: what the script sets when it asks the program for completions
VARIABLE = "_LUCIUS_COMPLETE"


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="Which shell.")]) -> None:
    """Print the script: `eval "$(lucius completion bash)"`, or `lucius completion fish | source`."""
    print(get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell.value))
