"""The wheels that pip accepts for the hosts that run the package. The package has only the wheels of
`HOST`.
"""

from __future__ import annotations

from infra.package.environment import DEPLOYED

#: tags of https://peps.python.org/pep-0600/ that the hosts of each platform accept; pip needs each name
_LINUX = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014", "manylinux_2_5", "manylinux1")


def linux(machine: str) -> tuple[str, ...]:
    """Returns the Linux platforms of `machine`, as pip names them."""
    return tuple(f"{tag}_{machine}" for tag in _LINUX)


#: Azure Functions
HOST = linux("x86_64")


def options(platforms: tuple[str, ...]) -> list[str]:
    """Returns options of `pip install`: wheels only, of any of the platforms, for the deployed version of Python."""
    named = [word for platform in platforms for word in ("--platform", platform)]
    return [*named, "--python-version", ".".join(map(str, DEPLOYED)), "--only-binary", ":all:"]
