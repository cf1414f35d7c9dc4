"""Allowed addresses of webhooks, literal or resolved from a name (R86)."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from shared.access.webhook_addresses import MAX_URL, AddressPolicy, Target, listed_host, reachable, unwrap
from shared.webhook_refusals import HookUrlRefused

#: addresses that no webhook can use, each with the reason
REFUSED = {
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "0.0.0.0": "this host",
    "10.1.2.3": "private",
    "172.16.0.1": "private",
    "192.168.1.1": "private",
    "100.64.0.1": "shared by carriers",
    "169.254.169.254": "metadata of clouds",
    "169.254.1.1": "link-local",
    "168.63.129.16": "Azure's DNS and health",
    "192.0.0.192": "protocol assignments, Oracle's metadata",
    "192.0.0.9": "protocol assignments that are called global",
    "198.18.0.1": "benchmarks",
    "203.0.113.7": "documentation",
    "224.0.0.1": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "broadcast",
    "::1": "loopback",
    "::": "this host",
    "fe80::1": "link-local",
    "fec0::1": "site-local",
    "fc00::1": "private",
    "fd00:ec2::254": "Amazon's metadata",
    "ff02::1": "multicast",
    "ff0e::1": "multicast of the whole internet",
    "2001:db8::1": "documentation",
    "::7f00:1": "IPv4-compatible loopback",
    "4000::1": "given to nobody",
    "::ffff:127.0.0.1": "mapped loopback",
    "::ffff:168.63.129.16": "mapped, Azure's",
    "::ffff:10.0.0.1": "mapped private",
    "64:ff9b::a9fe:a9fe": "NAT64 of metadata",
    "64:ff9b::a83f:8110": "NAT64 of Azure's",
    "64:ff9b:1::1": "NAT64 of a network's own",
    "2002:a9fe:a9fe::1": "6to4 of metadata",
    "2002:7f00:1::": "6to4 of loopback",
    "2002:a83f:8110::1": "6to4 of Azure's",
    # the client's address is inverted
    "2001:0:4136:e378:8000:63bf:80ff:fffe": "Teredo of loopback",
    "2001:0:4136:e378:8000:63bf:5601:5601": "Teredo of metadata",
}
GLOBAL = ("1.1.1.1", "20.50.2.7", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101", "2002:101:101::1")


@pytest.mark.parametrize("address", REFUSED)
def test_inner_addresses_are_not_reachable(address: str) -> None:
    """Private addresses are refused in every notation that contains them."""
    assert not reachable(address)


@pytest.mark.parametrize("address", GLOBAL)
def test_addresses_of_the_internet_are_reachable(address: str) -> None:
    """Also where one address carries another one."""
    assert reachable(address)


def test_a_carried_address_is_unwrapped_until_it_is_plain() -> None:
    """6to4 of an address is that address."""
    assert str(unwrap(ip_address("2002:a9fe:a9fe::1"))) == "169.254.169.254"
    assert str(unwrap(ip_address("2001:0:4136:e378:8000:63bf:80ff:fffe"))) == "127.0.0.1"


def test_names_at_port_443_are_taken() -> None:
    """The address in one reading: lower case, the port that https has."""
    policy = AddressPolicy()
    assert policy.target("https://Hooks.Example.com/x?y=%2F") == Target("https", "hooks.example.com", 443)
    assert policy.target("HTTPS://xn--bcher-kva.example:443") == Target("https", "xn--bcher-kva.example", 443)


@pytest.mark.parametrize(
    "url",
    [
        *(f"https://{address}/" for address in REFUSED if ":" not in address),
        *(f"https://[{address}]/" for address in REFUSED if ":" in address),
        # a literal of the internet too: a certificate names hosts
        "https://1.1.1.1/",
        "https://[2606:4700::1111]/",
        "https://127.1/",
        "https://0x7f.1/",
        "https://0x7f000001/",
        "https://2130706433/",
        "https://0177.0.0.1/",
        "https://127.0.0.1./",
        "https://1.1.1.1.0x/",
        "https://\uff11\uff12\uff17.0.0.1/",
        "https://\u2460\u2461\u2466.0.0.1/",
        "https://[fe80::1%25eth0]/",
        "https://[::1/",
        "https://::1/",
        "https://localhost/",
        "https://metadata/",
        "https://hooks.example.com./",
        "https://b\u00fccher.example/",
        "https://user:secret@hooks.example.com/",
        "https://hooks.example.com@169.254.169.254/",
        "https://hooks.example.com\\@169.254.169.254/",
        "https://hooks.example.com#@169.254.169.254/",
        "https://hooks.example.com:8443/",
        "https://hooks.example.com:0/",
        "https://hooks.example.com:99999/",
        "https://hooks.example.com:/\r\nX: y",
        "https://hooks .example.com/",
        "https://-hooks.example.com/",
        f"https://{'a' * 64}.example.com/",
        f"https://{'a.' * 127}example.com/",
        "http://hooks.example.com/",
        "ftp://hooks.example.com/",
        "file:///etc/passwd",
        "//hooks.example.com/",
        "https://",
        "https:///path",
        "",
        "https://hooks.example.com/" + "x" * MAX_URL,
    ],
)
def test_every_other_address_is_refused(url: str) -> None:
    """In any spelling; the reason repeats nothing of the address, which may hold a secret."""
    with pytest.raises(HookUrlRefused) as refused:
        AddressPolicy().target(url)
    assert refused.value.why
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("entry", "spelling"),
    [
        ("hooks.corp.example", "hooks.corp.example:443"),
        ("hooks.corp.example:8443", "hooks.corp.example:8443"),
        ("localhost:*", "localhost:*"),
        ("10.1.2.3", "10.1.2.3:443"),
        ("[::1]:3000", "[::1]:3000"),
        ("[0:0:0:0:0:0:0:1]:*", "[::1]:*"),
        ("acme@hooks.corp.example", "acme@hooks.corp.example:443"),
        (" Acme @10.1.2.3:*", "acme@10.1.2.3:*"),
        # a tenant may be an address of mail
        ("ops@acme.example@[::1]:3000", "ops@acme.example@[::1]:3000"),
        ("=platform@localhost:80", "=platform@localhost:80"),
    ],
)
def test_a_listed_host_has_one_spelling(entry: str, spelling: str) -> None:
    """A host without a port is listed at 443."""
    assert listed_host(entry) == spelling


@pytest.mark.parametrize(
    "entry",
    [
        "*",
        "*:*",
        "https://a.example",
        "a.example/x",
        "a.example:80:*",
        "::1",
        "127.1",
        "@b",
        " @b",
        "*@b",
        "..@b",
        "a@",
        "a@b@",
        "a@*",
        "a:x",
        "a?b",
        ":80",
    ],
)
def test_what_is_no_host_is_not_listed(entry: str) -> None:
    """A list that allows less than intended would be noticed too late."""
    with pytest.raises(ValueError, match=r"must|is no|has a host"):
        listed_host(entry)


def test_a_listed_host_is_reached_as_it_is_listed() -> None:
    """By http and at its port, and nowhere else."""
    policy = AddressPolicy(frozenset({"127.0.0.1:*", "localhost:3000", "[::1]:3000", "hooks.corp.example:443"}))
    for url in (
        "http://127.0.0.1:5555/x",
        "http://localhost:3000",
        "http://[0::1]:3000/",
        "https://hooks.corp.example/",
    ):
        policy.target(url)
    for url in (
        *("http://localhost:3001", "http://127.0.0.2:5555/", "http://hooks.corp.example/", "http://127.1:5555/"),
        *("http://a.hooks.corp.example/", "http://hooks.corp.example:8443/"),
    ):
        with pytest.raises(HookUrlRefused):
            policy.target(url)


def test_an_entry_may_name_its_tenant() -> None:
    """For every other tenant the entry has no effect, in every check."""
    entries = {"acme@10.1.2.3:80", "acme@hooks.corp.example:443", "ops@acme@10.9.9.9:*", "localhost:*"}
    policy = AddressPolicy(frozenset(entries))
    own, private = policy.of("acme"), "10.1.2.3"
    assert own.target("http://10.1.2.3/") == Target("http", private, 80)
    assert own.lets(own.target("https://hooks.corp.example/"), private)
    for other in (
        policy,
        *(policy.of(tenant) for tenant in ("", "other", "acm", "ops@acme", "acme@hooks", "=platform")),
    ):
        assert other.target("http://localhost:5/").port == 5
        with pytest.raises(HookUrlRefused):
            other.target("http://10.1.2.3/")
        # a public name that leads into the private network
        assert not other.lets(other.target("https://hooks.corp.example/"), private)
    policy.of("ops@acme").target("http://10.9.9.9:1/")


def test_a_listed_name_may_lead_into_the_private_network_and_not_to_the_cloud() -> None:
    """The owner of the name's DNS chooses its address: metadata and Azure's own services stay refused."""
    policy = AddressPolicy(frozenset({"hooks.corp.example:443", "169.254.169.254:80", "168.63.129.16:*"}))
    listed = policy.target("https://hooks.corp.example/")
    other = policy.target("https://hooks.example.com/")
    for address in ("10.1.2.3", "127.0.0.1", "::1", "fd00::1", "1.1.1.1"):
        assert policy.lets(listed, address)
    for address in ("10.1.2.3", "127.0.0.1", "fd00::1"):
        assert not policy.lets(other, address)
    for address in ("169.254.169.254", "168.63.129.16", "192.0.0.192", "::ffff:169.254.169.254", "fe80::1", "0.0.0.0"):
        assert not policy.lets(listed, address)
    for carried in ("::169.254.169.254", "::168.63.129.16", "::ffff:0:168.63.129.16", "64:ff9b:1::a83f:8110"):
        assert not policy.lets(listed, carried)
    for url in ("http://169.254.169.254/", "http://168.63.129.16:80/"):
        with pytest.raises(HookUrlRefused):
            policy.target(url)
