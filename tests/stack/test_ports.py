from __future__ import annotations

import argparse
import os
import socket
from contextlib import ExitStack

import pytest

import emulator.up.ports
from emulator.up.errors import UpError
from emulator.up.ports import DEFAULTS, Ports, choose, find_free


def options(**given: int | None) -> argparse.Namespace:
    free: dict[str, int | None] = {"api_port": 0, "bus_port": 0, "admin_port": None, "azurite_port": 0}
    return argparse.Namespace(**{"traces": False, "traces_port": 0, "auth": False, "issuer_port": 0, **free, **given})


def all_of(ports: Ports) -> list[int]:
    return [ports.api, ports.bus, ports.admin, ports.blob, ports.queue, ports.table]


def test_zero_picks_ports_that_differ() -> None:
    """With 0 everywhere a stack gets six different ports, those of Azurite in a row."""
    ports = choose(options())
    assert len(set(all_of(ports))) == 6
    assert (ports.queue, ports.table) == (ports.blob + 1, ports.blob + 2)


def test_a_bus_port_of_ones_own_frees_the_admin_port() -> None:
    """Another bus port changes the admin port too, so that a second stack needs no option for it."""
    assert choose(options(bus_port=find_free())).admin != DEFAULTS.admin


def test_a_named_admin_port_is_kept() -> None:
    """`--admin-port` applies with any bus port."""
    admin = find_free()
    assert choose(options(bus_port=0, admin_port=admin)).admin == admin


@pytest.mark.parametrize(
    ("option", "offset"),
    [("api_port", 0), ("bus_port", 0), ("admin_port", 0), ("azurite_port", 0), ("azurite_port", 2)],
)
def test_a_port_in_use_is_named_with_its_option(option: str, offset: int) -> None:
    """The line for a port in use names the port and the command for another, also for Azurite's second and third."""
    first = find_free(3)
    with socket.create_server(("127.0.0.1", first + offset)):
        words = rf"^port {first + offset} is in use, .*: \.venv/bin/lucius up --{option.replace('_', '-')} 0$"
        with pytest.raises(UpError, match=words):
            choose(options(**{option: first}))


def test_all_ports_in_use_are_named_at_once() -> None:
    """The command has each option once."""
    api, bus, azurite = find_free(), find_free(), find_free(3)
    with ExitStack() as servers:
        for port in (api, bus, azurite, azurite + 1):
            servers.enter_context(socket.create_server(("127.0.0.1", port)))
        with pytest.raises(UpError) as refused:
            choose(options(api_port=api, bus_port=bus, azurite_port=azurite, auth=True))
    words = f"ports {api}, {bus}, {azurite}, {azurite + 1} are in use, "
    assert str(refused.value).startswith(words)
    assert str(refused.value).endswith("up --auth --api-port 0 --bus-port 0 --azurite-port 0")


def test_one_port_for_two_uses_is_refused() -> None:
    """Both options are named."""
    first = find_free(3)
    with pytest.raises(UpError, match=f"--api-port and --azurite-port have the same port {first + 2}"):
        choose(options(api_port=first + 2, azurite_port=first))


def test_nobody_finds_what_another_has_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it is bound: neither the same process nor one that starts at the same time."""
    found = [set(all_of(choose(options()))) for _ in range(2)]
    own = os.getpid()
    for process in (own + 1, own + 2):
        monkeypatch.setattr(os, "getpid", lambda process=process: process)
        monkeypatch.setattr(emulator.up.ports, "_found", set())
        found.append(set(all_of(choose(options()))))
    assert len(set.union(*found)) == 4 * 6
