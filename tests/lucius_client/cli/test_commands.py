"""Commands that other packages add by entry point."""

from __future__ import annotations

import re
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

import lucius_checkout
from emulator.up import command
from lucius_client.cli import main
from tests.running_stack import ROOT


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """Returns a command line with one command."""
    app = typer.Typer()
    app.command("jobs")(lambda: typer.echo("its own"))
    monkeypatch.setattr(main, "app", app)
    return app


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, main.GROUP)


def test_a_package_adds_commands(app: typer.Typer, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are found by the entry point's name; one that bears the name of an own command is left out."""
    other = typer.Typer()
    other.callback()(lambda: None)
    other.command("hello")(lambda: typer.echo("from there"))
    monkeypatch.setitem(sys.modules, "other_package", type(sys)("other_package"))
    monkeypatch.setattr(sys.modules["other_package"], "app", other, raising=False)
    main.add_commands([entry("other", "other_package:app"), entry("jobs", "other_package:app")])
    assert CliRunner().invoke(app, ["other", "hello"]).stdout == "from there\n"
    assert CliRunner().invoke(app, ["jobs"]).stdout == "its own\n"


def test_a_package_that_cannot_be_loaded_breaks_its_own_command_only(app: typer.Typer) -> None:
    """The reason is one line; the other commands work."""
    main.add_commands([entry("broken", "no_such_package:app")])
    assert CliRunner().invoke(app, ["jobs"]).stdout == "its own\n"
    error = CliRunner().invoke(app, ["broken"]).exception
    assert isinstance(error, main.CliError)
    assert str(error).startswith("this command cannot be loaded: no_such_package:app: ModuleNotFoundError")


def test_a_checkout_has_the_groups_of_its_packages() -> None:
    """`lucius service`, `faults`, `tape` and `up` come with packages that `make setup` installs."""
    assert {"service", "faults", "tape", "up"} <= {group.name for group in main.app.registered_groups}


def up(*words: str) -> Result:
    return CliRunner().invoke(main.app, ["up", *words])


def test_up_takes_the_options_of_make_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They have one home; without `--data` it is the checkout's own folder, wherever the command is typed."""
    taken: list[Namespace] = []
    monkeypatch.setattr(command, "run", lambda args: taken.append(args) or 7)
    monkeypatch.chdir(tmp_path)
    words = ["--traces", "--auth", "--api-port", "0", "--without-services"]
    assert up(*words).exit_code == 7
    parser = ArgumentParser()
    command.add_arguments(parser)
    assert taken == [parser.parse_args([*words, "--data", str(ROOT / ".lucius")])]
    assert "--issuer-port N" in up("--help").stdout
    assert (up("--api-port", "x").exit_code, up("nothing").exit_code, len(taken)) == (2, 2, 1)


def test_tape_takes_the_options_of_its_module() -> None:
    """A missing bundle is a wrong usage; the help has the options."""
    assert CliRunner().invoke(main.app, ["tape", "play"]).exit_code == 2
    assert "--unknown {fail,succeed}" in CliRunner().invoke(main.app, ["tape", "play", "--help"]).stdout


def test_up_without_its_checkout_is_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A package that was copied elsewhere has nothing to start: exit code 2."""
    monkeypatch.setattr(lucius_checkout, "_ROOT", tmp_path)
    done = up("--help")
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert "make setup" in done.stderr


def commands(group: Any, path: str = "lucius") -> Iterator[tuple[str, Any]]:
    """The listed commands of this package, with their words."""
    for name, each in group.commands.items():
        if each.hidden or name in ("service", "faults", "tape", "up"):
            continue
        if hasattr(each, "commands"):
            yield from commands(each, f"{path} {name}")
        else:
            yield f"{path} {name}", each


ROOT_GROUP = typer.main.get_command(main.app)


@pytest.mark.parametrize(
    ("path", "command"), list(commands(ROOT_GROUP)), ids=[path for path, _ in commands(ROOT_GROUP)]
)
def test_a_command_has_examples_that_it_takes(path: str, command: Any) -> None:
    """One or two, each a command line with this command, whose arguments and options are valid."""
    first, *examples = command.epilog.split("\n\n")
    assert first == "Examples:"
    assert 1 <= len(examples) <= 2
    for example in examples:
        assert path in example
        words = shlex.split(example.removeprefix('eval "$(').removesuffix(')"').partition(" | ")[0])
        group, context = ROOT_GROUP, ROOT_GROUP.make_context("lucius", [], resilient_parsing=True)
        while words := words[1:]:
            found = group.commands[words[0]]
            if not hasattr(found, "commands"):
                assert found is command
                found.make_context(words[0], words[1:], parent=context)
                break
            group = found


def test_older_words_are_aliases_that_help_does_not_list() -> None:
    """`lucius jobs`, `lucius webhooks change` and others still work."""
    for older, today in (
        ("jobs", "job list"),
        ("deadletters", "deadletter list"),
        ("events", "event list"),
        ("protocols", "protocol list"),
        ("webhooks change", "webhook update"),
        ("webhooks remove", "webhook delete"),
        ("incident retry", "incident redrive"),
    ):
        named = [CliRunner().invoke(main.app, [*words.split(), "--help"]) for words in (older, today)]
        options = [re.findall(r"--[a-z-]+", each.stdout.partition("Examples")[0]) for each in named]
        assert options[0] == options[1] != []
    listed = CliRunner().invoke(main.app, ["--help"]).stdout
    assert not re.search(r"│ (jobs|deadletters|events|protocols|webhooks) ", listed)
