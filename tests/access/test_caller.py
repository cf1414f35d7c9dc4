from typing import Any

import pytest

from shared.access.caller import ANYONE, NOBODY, Caller, Scope, caller_from_claims
from shared.access.tenants import TenantRules
from shared.refusals import ScopeMissing, TenantForbidden, TenantMissing, TokenInvalid

ALL = "orch:all-tenants"
RULES = TenantRules(claim="tenant_id")


def caller(**claims: Any) -> Caller:
    return caller_from_claims({"sub": "alice", **claims}, tenants=RULES, all_tenants_role=ALL)


def test_scopes_of_users_and_roles_of_apps_are_the_same() -> None:
    """`scp` is text with spaces, `roles` a list; values that are not scopes of LUCIUS are left out."""
    assert caller(tenant_id="a", scp="orch:read openid orch:quota").scopes == {Scope.READ, Scope.QUOTA}
    assert caller(tenant_id="a", roles=["orch:operate", 5, "Reader"]).scopes == {Scope.OPERATE}
    assert caller(tenant_id="a", scp="orch:read", roles=["orch:admin"]).scopes == {Scope.READ, Scope.ADMIN}


@pytest.mark.parametrize(
    "scp", ["", "orch:reader", "ORCH:READ", "orch:read,orch:admin", ["orch", "read"], {"orch:read": 1}, None]
)
def test_what_only_looks_like_a_scope_is_none(scp: object) -> None:
    """Matched whole and exactly."""
    assert caller(tenant_id="a", scp=scp).scopes == frozenset()


def test_admin_is_given_and_not_requested() -> None:
    """A client can request any scope for its user; `orch:admin` counts only as a role of the directory."""
    for claim in ("scp", "scope"):
        assert caller(tenant_id="a", **{claim: "orch:admin orch:quota"}).scopes == {Scope.QUOTA}
    assert caller(tenant_id="a", scp="orch:admin", roles=["orch:admin"]).scopes == {Scope.ADMIN}


def test_no_scope_implies_another() -> None:
    """An admin without the scope to read is refused, and the error names the missing scope."""
    with pytest.raises(ScopeMissing, match=Scope.READ):
        caller(tenant_id="a", roles=["orch:admin"]).require(Scope.READ)


def test_tenants_are_compared_normalised() -> None:
    """Trimmed and in lower case, in the token as in the request."""
    one = caller(tenant_id=" Tenant_A ")
    assert one.tenant == "tenant_a"
    assert one.may_see("TENANT_a ")
    assert one.tenant_for(" tenant_A") == " tenant_A"
    assert one.tenant_for(None) == "tenant_a"
    assert not one.may_see("tenant_b")


def test_another_tenant_is_forbidden_to_name() -> None:
    """The message names neither of the two tenants."""
    with pytest.raises(TenantForbidden) as refused:
        caller(tenant_id="tenant_a").tenant_for("tenant_b")
    assert "tenant_" not in str(refused.value)


def reach(caller: Caller) -> tuple[bool, bool]:
    """Returns the rights of the caller to see, and to move, jobs of another tenant."""
    return caller.may_see("anybody"), caller.may_move("anybody")


def test_reading_and_moving_every_tenants_jobs_are_two_roles() -> None:
    """Neither implies the other; the older name is both. The one that moves jobs is in the audit trail."""
    reader, mover, both = (caller(roles=[f"{ALL}{suffix}"]) for suffix in (":read", ":operate", ""))
    assert (reach(reader), reach(mover), reach(both)) == ((True, False), (False, True), (True, True))
    assert [each.actor for each in (reader, mover, both)] == [
        "caller:alice",
        "caller:alice (orch:all-tenants:operate)",
        "caller:alice (orch:all-tenants)",
    ]
    assert reader.tenant_for(None) is both.tenant_for(None) is mover.tenant_for(None, moving=True) is None
    for one, moving in ((reader, True), (mover, False)):
        for named in (None, "anybody"):
            with pytest.raises(TenantForbidden):
                one.tenant_for(named, moving=moving)


def test_roles_over_all_tenants_are_given_and_not_requested() -> None:
    """They count in `roles` alone, whole and exactly."""
    for claims in (
        {"scp": f"{ALL} {ALL}:read {ALL}:operate"},
        {"scope": ALL},
        {"roles": [f"{ALL}:", f"{ALL}:READ", "x" + ALL]},
    ):
        assert reach(caller(tenant_id="a", **claims)) == (False, False)


def test_one_who_sees_all_may_have_a_tenant_of_its_own() -> None:
    """It moves that tenant's jobs and no others; without one, or with a wrong one, it only sees."""
    own = caller(tenant_id="tenant_a", roles=[f"{ALL}:read"])
    assert (own.may_move("Tenant_A"), *reach(own)) == (True, True, False)
    assert own.tenant_for(None, moving=True) == "tenant_a"
    for claims in ({}, {"tenant_id": ".."}, {"roles": [f"{ALL}:read", "tenant:a", "tenant:b"]}):
        assert caller(**{"roles": [f"{ALL}:read"], **claims}).tenant is None


def test_what_names_no_tenant_is_seen_by_those_who_see_all() -> None:
    """A row without a tenant belongs to no tenant."""
    for whose in (caller(tenant_id="a"), caller(roles=[f"{ALL}:operate"])):
        assert not whose.may_see(None)
    assert caller(roles=[f"{ALL}:read"]).may_see(None)
    assert not caller(roles=[f"{ALL}:read"]).may_move(None)


@pytest.mark.parametrize(
    ("claims", "actor"),
    [
        ({"sub": "pairwise", "oid": "o-1", "idtyp": "user"}, "user:o-1"),
        ({"sub": "pairwise", "oid": "o-1"}, "user:o-1"),
        ({"sub": "o-2", "oid": "o-2", "azp": "client"}, "app:o-2"),
        ({"sub": "pairwise", "oid": "o-2", "idtyp": "app"}, "app:o-2"),
        ({"sub": "s6BhdRkqt3", "client_id": "s6BhdRkqt3"}, "app:s6BhdRkqt3"),
        ({"sub": "auth0|1", "azp": "client"}, "caller:auth0|1"),
        ({"sub": "x", "oid": ""}, "caller:x"),
        ({"sub": "x", "oid": ["o-1"]}, "caller:x"),
        # none of these can imitate the app, a service or an operator
        ({"sub": "system"}, "caller:system"),
        ({"sub": "x (orch:all-tenants)"}, "caller:x ?orch:all-tenants)"),
        (
            {"sub": "x", "oid": "service:ocr", "name": "Olga", "preferred_username": "olga@example.com"},
            "user:service:ocr",
        ),
    ],
)
def test_an_actor_can_be_looked_up(claims: dict[str, Any], actor: str) -> None:
    """The directory's object id, with the kind of caller if the token has one; no claim with a name is read."""
    assert caller(tenant_id="a", **claims).actor == actor


@pytest.mark.parametrize(
    "claimed",
    [
        None,
        "",
        "  ",
        ".",
        " ..",
        7,
        ["tenant_a"],
        {"id": "tenant_a"},
        "a" * 129,
        "tenant\x00a",
        "tenant_a\n",
        "tenant\u200b_a",  # invisible
        "\u202etenant_a",  # turns the reading direction
        "tenant_\uff41",  # a wide a, which is an a in compatibility form
        "\u212aelvin",  # the Kelvin sign, which is a k in lower case
        "tenant_\ud800",
        "ﬁrst",
    ],
)
def test_a_token_without_a_plain_tenant_reaches_nothing(claimed: object) -> None:
    """Missing, of another form, or text that is another tenant's in some spelling: refused for every request."""
    with pytest.raises(TenantMissing) as refused:
        caller(tenant_id=claimed)
    assert "claim tenant_id must name a tenant" in str(refused.value)


def test_other_scripts_are_tenants_of_their_own() -> None:
    """Characters of the same shape are different: a Cyrillic a is not a Latin a."""
    assert not caller(tenant_id="tenant_а").may_see("tenant_a")  # noqa: RUF001
    assert caller(tenant_id="Größe").tenant == "größe"


def test_a_claim_may_be_the_source() -> None:
    """The claim applies if it is named and in the token; a value that is not plain text is refused, not omitted."""

    def source(**claims: Any) -> str | None:
        token = {"sub": "alice", "tenant_id": "a", **claims}
        return caller_from_claims(token, tenants=RULES, all_tenants_role=ALL, source_claim="device").source

    assert (source(device="Scanner-7"), source()) == ("Scanner-7", None)
    assert caller(tenant_id="a", device="Scanner-7").source is None
    for claimed in (7, "", " ", ["a"], "a\u202eb", "x" * 257):
        with pytest.raises(TokenInvalid):
            source(device=claimed)


def test_the_subject_cannot_write_into_logs() -> None:
    """Control characters and other characters that are not text become question marks; the length is bounded."""
    assert caller(sub='eve\r\n{"event": 1}\x1b[2J\u202e', tenant_id="a").actor == 'caller:eve??{"event": 1}?[2J?'
    assert len(caller(sub="x" * 1000, tenant_id="a").actor) == len("caller:") + 256


def test_without_authentication_everything_is_allowed() -> None:
    """A laptop's way: any tenant may be named, and without a name it is all."""
    for scope in Scope:
        ANYONE.require(scope)
    assert ANYONE.tenant_for("x") == "x"
    assert ANYONE.tenant_for("") is ANYONE.tenant_for("", moving=True) is None
    assert reach(ANYONE) == (True, True)
    assert reach(NOBODY) == (False, False)
