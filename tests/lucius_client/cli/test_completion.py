"""What a shell is given, and what the program answers it."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.lucius_client.cli.command import run_main, run_program


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_names_the_program(shell: str) -> None:
    """One for each shell, and bash finds no fault in its own."""
    script = run_main("completion", shell)
    assert script.returncode == 0
    assert "lucius" in script.stdout
    if shell == "bash":
        assert shutil.which("bash")
        subprocess.run(["bash", "-n"], input=script.stdout, text=True, check=True)


def test_commands_are_completed() -> None:
    """As bash asks for them."""
    completed = run_program(_LUCIUS_COMPLETE="complete_bash", COMP_WORDS="lucius job e", COMP_CWORD="2")
    assert completed.stdout.split() == ["events", "explain"]


def test_help_has_a_short_form() -> None:
    """-h, for every command."""
    for words in ((), ("job",), ("job", "show"), ("submit",)):
        completed = run_main(*words, "-h")
        assert completed.returncode == 0
        assert "Usage: lucius" in completed.stdout
