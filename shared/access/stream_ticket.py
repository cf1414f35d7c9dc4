"""Tickets for a browser's EventSource, which cannot send the header `Authorization` with a token (R77).

A ticket is `lt1.{key id}.{claims}.{signature}`, signed with the keys of callback tokens. A ticket is part of a URL,
which other people can see. So a ticket expires within 15 minutes, and opens only one stream of one tenant.
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
class StreamTicket:
    """The rights of a ticket: to read one stream of one tenant, until the ticket expires."""

    #: the caller that requested it
    actor: str
    #: normalised tenant whose events it reads
    tenant: str
    #: path of the stream, from the root of the API
    path: str
    expires_at: datetime

    @property
    def caller(self) -> Caller:
        """Makes a caller that can read one tenant, without the other rights of the ticket's creator."""
        return Caller(actor=self.actor, scopes=frozenset({Scope.READ}), tenant=self.tenant)


def ticket_for(caller: Caller, tenant: str, path: str, now: datetime) -> StreamTicket:
    """Makes a ticket. The ticket expires with its caller's token, at most 15 minutes from now, in whole seconds."""
    until = now + MAX_LIFE
    # a token may end later than a datetime can represent
    if caller.expires is not None and caller.expires < until.timestamp():
        until = datetime.fromtimestamp(caller.expires, UTC)
    return StreamTicket(actor=caller.actor, tenant=tenant, path=path, expires_at=until.replace(microsecond=0))


def sign_ticket(ticket: StreamTicket, keys: Keys, *, deployment: str) -> str:
    claims = {
        "actor": ticket.actor,
        "tenant": ticket.tenant,
        "path": ticket.path,
        "exp": ticket.expires_at.timestamp(),
    }
    return sign_claims(VERSION, claims, keys, deployment=deployment)


def read_ticket(text: str, keys: Keys, *, deployment: str, path: str, now: datetime) -> StreamTicket:
    """Returns the ticket. Raises TokenInvalid if the ticket's signature is invalid, if the ticket is for another
    deployment or path, or if the ticket has expired.
    """
    try:
        claims = verified_claims(VERSION, text, keys, deployment=deployment)
    except ValueError as wrong:
        raise TokenInvalid(str(wrong).replace("token", "ticket")) from None
    ticket = StreamTicket(
        actor=claims["actor"],
        tenant=claims["tenant"],
        path=claims["path"],
        expires_at=datetime.fromtimestamp(claims["exp"], UTC),
    )
    if ticket.path != path:
        raise TokenInvalid("the ticket is for another path; create a ticket for this path")
    if ticket.expires_at <= now:
        raise TokenInvalid("the ticket has expired; create another ticket")
    return ticket
