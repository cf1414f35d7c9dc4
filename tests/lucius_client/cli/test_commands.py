"""Commands that other packages add by entry point."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint

import pytest
import typer
from typer.testing import CliRunner

from lucius_client.cli import main


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """A command line with one command of its own."""
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


def test_the_kit_of_services_adds_its_group() -> None:
    """`lucius service` comes with lucius-service."""
    assert "service" in {group.name for group in main.app.registered_groups}
