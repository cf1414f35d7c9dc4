"""The ports of a stack. The module checks given ports and finds free ports."""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from emulator.up.errors import UpError

LOOPBACK = "127.0.0.1"

#: range of free ports, below the range of outgoing connections (32768 and up on Linux, 49152 and up on macOS). So no
#: connection takes a port between the check and the bind of the child
_FREE_RANGE = (20_000, 32_000)
#: distance between the ports at which processes of neighbouring ids start to search
_APART = 592
#: ports that this process has found and perhaps not bound yet
_found: set[int] = set()


@dataclass(frozen=True)
class Ports:
    """The ports of a stack on loopback. Azurite uses `azurite` for blobs, the next port for queues, and the port after
    that for tables.
    """

    api: int
    bus: int
    admin: int
    azurite: int
    #: port of the trace collector; 0: none
    traces: int = 0
    #: port of the token issuer; 0: none
    issuer: int = 0

    @property
    def blob(self) -> int:
        return self.azurite

    @property
    def queue(self) -> int:
        return self.azurite + 1

    @property
    def table(self) -> int:
        return self.azurite + 2


DEFAULTS = Ports(api=7071, bus=5672, admin=5300, azurite=10000, traces=4318, issuer=7080)


def choose(args: argparse.Namespace) -> Ports:
    """Returns the ports of the options `api_port, bus_port, admin_port, azurite_port`. With `traces` and `auth`, also
    returns `traces_port` and `issuer_port`.

    The port 0 means any free port. `admin_port` None is the default port if the bus has its default port, else a free
    port. So a second stack does not need `--admin-port`.

    Raises UpError for a port that is given twice or is too high. If ports are in use, raises UpError with the command
    for other ports.
    """
    admin_port = args.admin_port
    if admin_port is None:
        admin_port = DEFAULTS.admin if args.bus_port == DEFAULTS.bus else 0
    requested = [
        ("api", args.api_port, 1),
        ("bus", args.bus_port, 1),
        ("admin", admin_port, 1),
        ("azurite", args.azurite_port, 3),
    ]
    if args.traces:
        requested.append(("traces", args.traces_port, 1))
    if args.auth:
        requested.append(("issuer", args.issuer_port, 1))
    taken: dict[int, str] = {}
    in_use: dict[int, str] = {}
    for name, first, count in requested:
        option = f"--{name}-port"
        for port in range(first, first + count) if first else ():
            if port > 65535:
                raise UpError(f"{option} {first} is too high for {count} ports; the last port is 65535")
            if port in taken:
                raise UpError(f"{taken[port]} and {option} have the same port {port}")
            if not _is_free(port):
                in_use[port] = option
            taken[port] = option
    if in_use:
        ports = f"port {next(iter(in_use))} is" if len(in_use) == 1 else f"ports {', '.join(map(str, in_use))} are"
        # `make up` has no options
        flags = [flag for flag, given in (("--auth", args.auth), ("--traces", args.traces)) if given]
        others = " ".join([*flags, *(f"{option} 0" for option in dict.fromkeys(in_use.values()))])
        raise UpError(f"{ports} in use, perhaps by another `make up`; for free ports: .venv/bin/lucius up {others}")
    chosen = {}
    for name, first, count in requested:
        if not first:
            first = find_free(count, avoid=taken.keys())
            taken.update((port, name) for port in range(first, first + count))
        chosen[name] = first
    return Ports(**chosen)


def find_free(count: int = 1, avoid: Iterable[int] = ()) -> int:
    """Returns the first of `count` neighbouring free ports. Raises UpError if no such ports are free.

    A process finds each port once, and processes begin at different ports, so that two stacks that start together do
    not collide.
    """
    low, high = _FREE_RANGE
    avoided, start = _found.union(avoid), os.getpid() * _APART
    for place in range(start, start + high - low):
        first = low + place % (high - low)
        ports = range(first, first + count)
        if ports.stop <= high and avoided.isdisjoint(ports) and all(_is_free(port) for port in ports):
            _found.update(ports)
            return first
    raise UpError(f"could not find {count} neighbouring free ports between {low} and {high}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # SO_REUSEADDR, as servers set it: connections of a stack that has just ended (TIME_WAIT) do not count
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True
