"""The URLs that a webhook can have (R86). A webhook's creator chooses a host, to which the app connects from its own
network.

The module resolves and opens nothing. An entry of `LUCIUS_WEBHOOK_HOSTS` is `HOST`, `HOST:PORT` or `HOST:*` for every
tenant. With `TENANT@` before the host, the entry is for one tenant.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from shared.access.tenants import plain_tenant
from shared.core.jobs.routing import PLATFORM, normalise
from shared.webhook_refusals import HookUrlRefused

_Address = IPv4Address | IPv6Address

#: maximum length of a URL
MAX_URL = 2048
#: characters that RFC 3986 allows, with `[` and `]` only around a host
_CHARACTERS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(\[[0-9A-Fa-f:.]+\])?[A-Za-z0-9._~:/?@!$&'()*+,;=%-]*")
_NAME = re.compile(r"([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
#: hosts that some readers take for a number: 127.1, 0x7f.1, 2130706433 (https://url.spec.whatwg.org, 3.5)
_NUMBER = re.compile(r"(.*\.)?([0-9]+|0x[0-9a-f]*)")

#: network of NAT64 (RFC 6052): the IPv4 address is in the last 32 bits
_NAT64 = IPv6Network("64:ff9b::/96")
#: addresses that registries call global, but that belong to the app's own network: Azure's services (DNS, health,
#: agent), protocol assignments, site-local. Also forms that contain an IPv4 address for a translator, which no public
#: host has
_INNER = tuple(
    ip_network(each)
    for each in (
        *("168.63.129.16/32", "192.0.0.0/24", "fec0::/10"),
        # IPv4-compatible (RFC 4291), IPv4-translated (RFC 7915), NAT64 of a local network (RFC 8215)
        *("::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48"),
    )
)


def unwrap(address: _Address) -> _Address:
    """Returns the IP address that a connection reaches. If an IP address contains another IP address, the connection
    reaches the inner address.
    """
    while isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        elif address.sixtofour is not None:
            address = address.sixtofour
        elif address.teredo is not None:
            # (server, client): packets go to the client
            address = address.teredo[1]
        elif address in _NAT64:
            address = IPv4Address(int(address) & 0xFFFFFFFF)
        else:
            break
    return address


def reachable(address: str) -> bool:
    """Returns True if the IP address is public on the internet. Raises ValueError if the text is not an IP address."""
    at = unwrap(ip_address(address))
    # reserved: `is_global` is true for all unassigned addresses, and for IPv4 addresses in the obsolete ::/96
    return at.is_global and not (at.is_multicast or at.is_reserved or _is_inner(at))


def _allowed_if_listed(address: str) -> bool:
    """Returns True if a listed host can have this IP address. Public, private and loopback addresses are allowed.
    Link-local, multicast and unspecified addresses are not allowed, and neither are those of `_INNER`.
    """
    at = unwrap(ip_address(address))
    return at.is_loopback or not (at.is_link_local or at.is_multicast or at.is_unspecified or _is_inner(at))


def _is_inner(address: _Address) -> bool:
    return any(address in net for net in _INNER if net.version == address.version)


@dataclass(frozen=True)
class Target:
    """The scheme, host and port of a URL."""

    scheme: str
    #: name, or literal address in its normal form without brackets; lower case
    host: str
    port: int


@dataclass(frozen=True)
class AddressPolicy:
    """The allowed targets: https at port 443 for names that lead to the internet, and listed hosts."""

    #: entries `HOST:PORT` or `HOST:*`: allowed over http or https, with any private address. `TENANT@HOST:PORT` has no
    #: effect before `of` was called for the tenant
    listed: frozenset[str] = frozenset()

    def of(self, tenant: str) -> AddressPolicy:
        """Returns the policy for one normalised tenant, with the entries for every tenant and the tenant's own
        entries.
        """
        entries = (each.rpartition("@") for each in self.listed)
        return AddressPolicy(frozenset(host for named, at, host in entries if not at or named == tenant))

    def target(self, url: str) -> Target:
        """Returns the target of a URL. Raises HookUrlRefused with the reason, without the URL, since a URL can contain
        a secret.
        """
        target = _target(url)
        literal = _literal(target.host)
        if self._is_listed(target):
            if literal is not None and not _allowed_if_listed(literal):
                raise HookUrlRefused(
                    "has an address that LUCIUS_WEBHOOK_HOSTS cannot allow: link-local, site-local, multicast, "
                    "unspecified, of Azure itself, or for protocols or IPv4 translation"
                )
            return target
        if target.scheme != "https":
            raise HookUrlRefused("must be an https URL; LUCIUS_WEBHOOK_HOSTS can allow http for a host")
        if literal is not None:
            raise HookUrlRefused("must have a host name; LUCIUS_WEBHOOK_HOSTS can allow an IP address")
        if "." not in target.host:
            raise HookUrlRefused("must have a host name with a dot; LUCIUS_WEBHOOK_HOSTS can allow another name")
        if target.port != 443:
            raise HookUrlRefused(f"must use port 443, not {target.port}; LUCIUS_WEBHOOK_HOSTS can allow another port")
        return target

    def lets(self, target: Target, address: str) -> bool:
        """Returns True if the connection can use this IP address, to which the target's name was resolved."""
        return reachable(address) or (self._is_listed(target) and _allowed_if_listed(address))

    def _is_listed(self, target: Target) -> bool:
        host = f"[{target.host}]" if ":" in target.host else target.host
        return f"{host}:{target.port}" in self.listed or f"{host}:*" in self.listed


def listed_host(entry: str) -> str:
    """Normalises an entry of `LUCIUS_WEBHOOK_HOSTS`: `HOST`, `HOST:PORT` or `HOST:*`, with or without `TENANT@`.
    Default port: 443.

    Raises ValueError for an invalid entry.
    """
    # the last one, since a tenant's name can have an @ and a host cannot
    tenant, at, entry = entry.rpartition("@")
    named_tenant = f"{_tenant(tenant)}@" if at else ""
    host, any_port = (entry[:-2], True) if entry.endswith(":*") else (entry, False)
    try:
        target = _target(f"https://{host}/")
    except HookUrlRefused as wrong:
        raise ValueError(wrong.why) from None
    if "/" in host or "?" in host or (any_port and host.rpartition("]")[2].count(":")):
        raise ValueError("must be HOST, HOST:PORT or HOST:*, with or without TENANT@")
    named = f"[{target.host}]" if ":" in target.host else target.host
    return f"{named_tenant}{named}:{'*' if any_port else target.port}"


def _tenant(text: str) -> str:
    """Returns the normalised tenant. Raises ValueError for an invalid name."""
    if (tenant := normalise(text)) == PLATFORM:
        return tenant
    if plain_tenant(tenant) is None or tenant == "*":
        raise ValueError("must name a tenant before @; omit TENANT@ to open the host to every tenant")
    return tenant


def spelled(host: str) -> str:
    """Normalises a name or a literal IP address, without brackets."""
    return _literal(host) or host.lower()


def _target(url: str) -> Target:
    if len(url) > MAX_URL:
        raise HookUrlRefused(f"must have at most {MAX_URL} characters, not {len(url)}")
    if not _CHARACTERS.fullmatch(url):
        raise HookUrlRefused("must be a complete URL without a fragment, in the ASCII characters of RFC 3986")
    try:
        parts = urlsplit(url)
        port = parts.port
        scheme = parts.scheme.lower()
        host = parts.hostname or ""
    except ValueError:
        raise HookUrlRefused("must have a valid host and port") from None
    if scheme not in ("https", "http"):
        raise HookUrlRefused("must be an https URL")
    if "@" in parts.netloc:
        raise HookUrlRefused("must not contain user information before the host")
    if port == 0:
        raise HookUrlRefused("must not have port 0")
    if ":" in host or _NUMBER.fullmatch(host):
        literal = _literal(host)
        if literal is None:
            raise HookUrlRefused("must have a host name that is not a number")
        host = literal
    elif not (_NAME.fullmatch(host) and len(host) <= 253):
        raise HookUrlRefused(
            "must have a valid host name, of at most 253 letters, digits, periods, hyphens and underscores"
        )
    return Target(scheme, host, port or (443 if scheme == "https" else 80))


def _literal(host: str) -> str | None:
    """Returns the literal IP address in its normal form. Returns None for a name, or for a form that programs interpret
    differently.
    """
    try:
        return str(ip_address(host))
    except ValueError:
        return None
