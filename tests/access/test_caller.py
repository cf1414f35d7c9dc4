from typing import Any

import pytest

from shared.access.caller import ANYONE, Caller, Scope, caller_from_claims
from shared.errors import ScopeMissing, TenantForbidden, TenantMissing

OPERATOR = "orch:all-tenants"


def caller(**claims: Any) -> Caller:
    return caller_from_claims({"sub": "alice", **claims}, tenant_claim="tenant_id", all_tenants_role=OPERATOR)


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


def test_no_scope_implies_another() -> None:
    """An admin who may not read is refused, and the error names the missing scope."""
    with pytest.raises(ScopeMissing) as refused:
        caller(tenant_id="a", scp="orch:admin").require(Scope.READ)
    assert refused.value.scope == Scope.READ


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


def test_an_operator_sees_every_tenant_by_role_only() -> None:
    """The role counts in `roles`, not in `scp`, and stands in the audit trail; the tenant claim is not needed."""
    operator = caller(roles=[OPERATOR, "orch:operate"])
    assert operator.tenant is None
    assert operator.may_see("anybody")
    assert operator.tenant_for(None) is None
    assert operator.actor == "alice (orch:all-tenants)"
    assert caller(tenant_id="a", scp=OPERATOR).tenant == "a"


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
    assert refused.value.claim == "tenant_id"


def test_other_scripts_are_tenants_of_their_own() -> None:
    """Letters that look alike are different: a Cyrillic a is not a Latin a."""
    assert not caller(tenant_id="tenant_а").may_see("tenant_a")  # noqa: RUF001
    assert caller(tenant_id="Größe").tenant == "größe"


def test_the_subject_cannot_write_into_logs() -> None:
    """Control characters and other characters that are not text become question marks; the length is bounded."""
    assert caller(sub='eve\r\n{"event": 1}\x1b[2J\u202e', tenant_id="a").actor == 'eve??{"event": 1}?[2J?'
    assert len(caller(sub="x" * 1000, tenant_id="a").actor) == 256


def test_without_authentication_everything_is_allowed() -> None:
    """A laptop's way: any tenant may be named, and without a name it is all."""
    for scope in Scope:
        ANYONE.require(scope)
    assert ANYONE.tenant_for("x") == "x"
    assert ANYONE.tenant_for("") is None
