"""Tickets: what a browser's EventSource, which sends no header, shows in the place of a token (R77).

`lt1.{key id}.{claims}.{signature}`, as tokens of callbacks are made, with the same keys. A ticket stands in an address,
where others may see it; so it is short-lived, reads one stream of one tenant, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from shared.access.callback_token import Keys, sign_claims, verified_claims
from shared.access.caller import Caller, Scope
from shared.refusals import TokenInvalid

VERSION = "lt1"
MAX_LIFE = timedelta(minutes=15)


@dataclass(frozen=True, kw_only=True)
class Ticket:
    """What a ticket allows."""

    #: the caller that requested it
    actor: str
    #: normalised: whose events
    tenant: str
    #: of the stream, from the root of the API
    path: str
    expires_at: datetime

    @property
    def caller(self) -> Caller:
        """Makes a caller that reads one tenant, and nothing else that the ticket's creator may do."""
        return Caller(actor=self.actor, scopes=frozenset({Scope.READ}), tenant=self.tenant)


def ticket_for(caller: Caller, tenant: str, path: str, now: datetime) -> Ticket:
    """Makes a ticket. It ends with its caller's token, at most 15 minutes from now, in whole seconds."""
    until = now + MAX_LIFE
    # a token may be for longer than a datetime can say
    if caller.expires is not None and caller.expires < until.timestamp():
        until = datetime.fromtimestamp(caller.expires, UTC)
    return Ticket(actor=caller.actor, tenant=tenant, path=path, expires_at=until.replace(microsecond=0))


def sign_ticket(ticket: Ticket, keys: Keys, *, deployment: str) -> str:
    claims = {
        "actor": ticket.actor,
        "tenant": ticket.tenant,
        "path": ticket.path,
        "exp": ticket.expires_at.timestamp(),
    }
    return sign_claims(VERSION, claims, keys, deployment=deployment)


def read_ticket(text: str, keys: Keys, *, deployment: str, path: str, now: datetime) -> Ticket:
    """Raises TokenInvalid where it was not made by this deployment, for another path, or for a time that is over."""
    try:
        claims = verified_claims(VERSION, text, keys, deployment=deployment)
    except ValueError as wrong:
        raise TokenInvalid(str(wrong).replace("token", "ticket")) from None
    ticket = Ticket(
        actor=claims["actor"],
        tenant=claims["tenant"],
        path=claims["path"],
        expires_at=datetime.fromtimestamp(claims["exp"], UTC),
    )
    if ticket.path != path:
        raise TokenInvalid("the ticket is for another path; create one for this path")
    if ticket.expires_at <= now:
        raise TokenInvalid("the ticket has expired")
    return ticket
