import base64
from datetime import timedelta

import pytest

from shared.access.callback_token import Grant, grant_of, sign_token, verify_token
from tests.jobs import START, Story

OLD, NEW = ("k1", b"1" * 32), ("k2", b"2" * 32)
GRANT = Grant(
    job_id="job_1",
    step_id="ocr",
    tenant_id="Größe GmbH",
    attempt_no=2,
    lease_id="lease",
    expires_at=START + timedelta(minutes=10, microseconds=7),
)


def test_a_token_grants_what_it_was_signed_for() -> None:
    """A token returns every claim until its expiry."""
    token = sign_token(GRANT, [OLD], deployment="prod")
    assert verify_token(token, [OLD], START, deployment="prod") == GRANT
    assert token.isascii()
    with pytest.raises(ValueError, match="expired"):
        verify_token(token, [OLD], GRANT.expires_at, deployment="prod")


def test_keys_are_changed_without_a_pause() -> None:
    """The first key signs, all verify; a removed key no longer verifies."""
    token = sign_token(GRANT, [OLD], deployment="prod")
    assert verify_token(token, [NEW, OLD], START, deployment="prod") == GRANT
    assert sign_token(GRANT, [NEW, OLD], deployment="prod").split(".")[1] == "k2"
    for keys in ([NEW], [], [("k1", b"3" * 32)], [("k9", OLD[1])]):
        with pytest.raises(ValueError, match="signature"):
            verify_token(token, keys, START, deployment="prod")


def test_a_token_of_another_deployment_grants_nothing() -> None:
    """Also one with the same keys, or one that names no deployment."""
    token = sign_token(GRANT, [OLD], deployment="dev")
    for other in ("prod", "Dev", "dev2", ""):
        with pytest.raises(ValueError, match="another deployment"):
            verify_token(token, [OLD], START, deployment=other)
    assert verify_token(token, [OLD], START, deployment="dev") == GRANT


def test_every_change_of_a_token_is_found() -> None:
    """One character more, less or other, anywhere: worth nothing."""
    token = sign_token(GRANT, [OLD], deployment="prod")
    for place in range(len(token)):
        other = "A" if token[place] != "A" else "B"
        for forged in (token[:place] + other + token[place + 1 :], token[:place] + token[place + 1 :]):
            with pytest.raises(ValueError, match="token"):
                verify_token(forged, [OLD], START, deployment="prod")


@pytest.mark.parametrize("token", ["", "x", "a.b.c.d", "lc1...", "lc1.k1.e30.", "\u00e4" * 40, "." * 5000])
def test_what_is_no_token_is_refused(token: str) -> None:
    """Every header without a valid token gets the same error."""
    with pytest.raises(ValueError, match="token"):
        verify_token(token, [OLD], START, deployment="prod")


def test_claims_without_a_signature_are_nothing() -> None:
    """Unsigned claims under a known key id do not pass."""
    claims = base64.urlsafe_b64encode(b'{"job":"job_1"}').decode().rstrip("=")
    with pytest.raises(ValueError, match="signature"):
        verify_token(f"lc1.k1.{claims}.", [OLD], START, deployment="prod")


def test_a_grant_outlives_the_lease_by_a_result_timeout() -> None:
    """Before the ACK it lives as long as its directive may wait on the bus, then from the lease's end on."""
    story = Story()
    story.recorded()
    deadline_at = story.record.job.deadline_at
    assert deadline_at is not None
    assert grant_of(story.record, story.step()).expires_at == deadline_at + timedelta(seconds=900)
    story.after(10).replied("ACK")
    assert grant_of(story.record, story.step()).expires_at == START + timedelta(seconds=10 + 900 + 900)
