"""Requests that are refused: each with a code that callers can rely on (R28)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shared.errors import LuciusError


class Refused(LuciusError):
    """The request cannot be served as it is; nothing was changed."""

    @property
    def code(self) -> str:
        """The code of its problem: the name of the class in capitals."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(self).__name__).upper()


class DependencyUnknown(Refused):
    """A job that the request depends on is none of its tenant's."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(f"no job of the tenant's: {', '.join(names)}")
        self.names = tuple(names)


class TokenMissing(Refused):
    """send Authorization: Bearer with a token"""


class TokenInvalid(Refused):
    """The token was rejected."""


class CallbackTokenInvalid(Refused):
    """The token of a callback was rejected."""

    @property
    def code(self) -> str:
        return "TOKEN_INVALID"


class ScopeMissing(Refused):
    """The token lacks the scope that this route needs."""

    def __init__(self, scope: str) -> None:
        super().__init__(f"this needs the scope {scope}")
        self.scope = scope


class TenantMissing(Refused):
    """The token names no tenant, or not just one."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the token names no tenant: {why}")


class TenantForbidden(Refused):
    """the token is for another tenant than the request names"""


class JobNotFound(Refused):
    """There is no such job, or it is another tenant's."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"there is no job {job_id[:128]}")
        self.job_id = job_id


class EventsOff(Refused):
    """this deployment keeps no events: LUCIUS_EVENTS is off"""


class CursorExpired(Refused):
    """The cursor is of another feed, or of events that are kept no more."""

    def __init__(self, earliest: str) -> None:
        super().__init__("what follows on this cursor is not kept; `earliest` is the first cursor that still holds")
        self.earliest = earliest


class HookUrlRefused(Refused):
    """An address of a webhook must not be called."""

    def __init__(self, why: str, path: str = "url") -> None:
        """The reason repeats nothing of the address, which may hold a secret."""
        super().__init__(f"{path} {why}")
        self.why = why
        #: of the request's body
        self.path = path


class HookKeyGone(Refused):
    """The key of the hook's secret is not configured any more."""

    def __init__(self, hook_id: str) -> None:
        super().__init__(f"the key that the secret of {hook_id} was made of is gone: rotate the secret")


class WebhooksOff(Refused):
    """this deployment sends no webhooks: it has no LUCIUS_WEBHOOK_KEYS, or LUCIUS_EVENTS is off"""


class HookNotFound(Refused):
    """There is no such webhook, or it is another tenant's."""

    def __init__(self, hook_id: str) -> None:
        super().__init__(f"there is no webhook {hook_id[:128]}")


class DeliveryNotFound(Refused):
    """There is no such delivery, or its event is kept no more."""

    def __init__(self, hook_id: str, number: int) -> None:
        super().__init__(f"webhook {hook_id[:128]} has no delivery {number} whose event is still kept")


class HookLimit(Refused):
    """The tenant has as many webhooks as it may have."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the tenant has {limit} webhooks; remove one first")


class HookKeyConflict(Refused):
    """The idempotency key belongs to a webhook that is, or was, another one."""

    def __init__(self, hook_id: str) -> None:
        super().__init__(
            f"this Idempotency-Key made webhook {hook_id}, which was asked for otherwise, or changed, rotated or "
            "removed since; use a new key"
        )

    @property
    def code(self) -> str:
        return "IDEMPOTENCY_CONFLICT"


class DefaultHook(Refused):
    """the default webhook has no address of its own: it cannot be changed, removed, tested or resumed"""


class ControlNotPossible(Refused):
    """The job's state does not allow the control."""

    def __init__(self, job_id: str, status: str, control: str) -> None:
        super().__init__(f"job {job_id} is {status}: it cannot be asked to {control}")
        self.job_id = job_id
        self.status = status


class JobTerminal(ControlNotPossible):
    """The job has ended and never changes again."""


class FilterInvalid(Refused):
    """A word of a filter of jobs is unknown, or its value is wrong."""

    def __init__(self, word: str, detail: str) -> None:
        super().__init__(detail)
        self.word = word

    @property
    def code(self) -> str:
        return f"{self.word.upper()}_INVALID"


class NotRedrivable(Refused):
    """The job cannot be taken up again as a new one."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        #: DEPENDENCY_FAILED, JOB_LIVE, JOB_SUCCEEDED, RESULT_EXPIRED or WITHDRAWN
        self.reason = reason

    @property
    def code(self) -> str:
        return self.reason


class IdempotencyConflict(Refused):
    """this idempotency_key was used with another body; use a new key, or send the first body again"""

    def __init__(self, job_id: str) -> None:
        super().__init__()
        #: the job that the key belongs to
        self.job_id = job_id


class ProtocolUnknown(Refused):
    """No protocol has that request type."""

    def __init__(self, request_type: str, known: Sequence[str]) -> None:
        super().__init__(f"no protocol for request_type {request_type!r}; known: {', '.join(known)}")
        self.known = list(known)


#: of what is wrong with one request; one more is looked for, so that the problem can say that there are more
MAX_REQUEST_ERRORS = 50
#: characters of the path and of the message of each
MAX_REQUEST_ERROR = 200


class RequestInvalid(Refused):
    """the request does not fit its protocol; see errors"""

    def __init__(self, errors: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        #: (path, message) of what is wrong
        self.errors = tuple(errors)


class DirectiveTooLarge(Refused):
    """A step's parameters are too large for the bus."""

    def __init__(self, step_id: str, size: int, limit: int) -> None:
        super().__init__(
            f"the directive of step {step_id} would be {size} bytes; at most {limit} travel on the bus: put large "
            "parameters into a blob and name it"
        )


class BodyTooLarge(Refused):
    """The body has more bytes than are taken."""


class LimitReached(Refused):
    """As many jobs are active as the limit allows."""

    def __init__(self, limit: str, detail: str, retry_after_s: int) -> None:
        super().__init__(f"{detail}, which is the limit; send the same request again later")
        #: the setting that holds the limit
        self.limit = limit
        self.retry_after_s = retry_after_s


class BulkNotFound(Refused):
    """There is no such bulk, or it is another tenant's."""

    def __init__(self, bulk_id: str) -> None:
        super().__init__(f"there is no bulk {bulk_id[:128]}")


class BulkLimit(Refused):
    """The tenant has as many running bulks as it may have."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the tenant has {limit} running bulk operations, which is the maximum; wait until one ends, or stop one"
        )


class BulkEnded(Refused):
    """Everything that the bulk was to do is done."""

    def __init__(self, bulk_id: str) -> None:
        super().__init__(f"bulk {bulk_id} is DONE: there is nothing left to stop")


class BulkKeyConflict(Refused):
    """The idempotency key belongs to a bulk with another body."""

    def __init__(self, bulk_id: str) -> None:
        super().__init__(f"this Idempotency-Key made bulk {bulk_id}, of another body; use a new key")

    @property
    def code(self) -> str:
        return "IDEMPOTENCY_CONFLICT"


class GateNotFound(Refused):
    """There is no such gate, or it is another tenant's."""

    def __init__(self, named: str) -> None:
        super().__init__(f"there is no gate {named[:300]}")


class IncidentNotFound(Refused):
    """There is no such incident, or it is another tenant's."""

    def __init__(self, incident_id: str) -> None:
        super().__init__(f"there is no incident {incident_id[:160]}")


class IncidentSettled(Refused):
    """The incident was settled otherwise, and never changes again."""

    def __init__(self, incident_id: str, state: str) -> None:
        super().__init__(f"incident {incident_id} is {state} already")
        self.state = state


class IncidentNoJob(Refused):
    """The incident is about a breaker or a service: there is no job to take up again."""

    def __init__(self, incident_id: str) -> None:
        super().__init__(f"incident {incident_id} is about no job: there is nothing to retry; resolve or dismiss it")


class GateUnclear(Refused):
    """name one gate: tenant; tenant and type; tenant and source; type; service"""


class QuotaInvalid(Refused):
    """the change does not fit the gate; see errors"""

    def __init__(self, *errors: tuple[str, str]) -> None:
        super().__init__()
        #: (path, message) of what is wrong
        self.errors = errors


class QuotaForbidden(Refused):
    """a tenant's own caller may hold, throttle, and resume what it held; other changes are an operator's"""


class RuleChanged(Refused):
    """the rule, hold or throttle of this gate was changed since it was read; read it again"""


class NoBreaker(Refused):
    """The gate has no breaker to reset."""

    def __init__(self, named: str) -> None:
        super().__init__(f"no rule gives {named} a breaker")


class TooManyRules(Refused):
    """A tenant's gates are one row; `limit`: number of gates, or their size."""

    def __init__(self, limit: int | str) -> None:
        of = "gates with a rule, hold or throttle" if isinstance(limit, int) else "of rules, holds and throttles"
        super().__init__(f"the tenant has {limit} {of}; delete one first")


class Overloaded(Refused):
    """This process has as many such requests in hand as it takes; send the same one again."""

    retry_after_s = 2


class NotYourAttempt(Refused):
    """The body of a callback names another attempt than its token."""

    def __init__(self, field: str) -> None:
        super().__init__(f"the body's {field} is not that of the token")


class RejectedNotFound(Refused):
    """There is no such rejected message."""

    def __init__(self, id_: str) -> None:
        super().__init__(f"there is no rejected message {id_[:128]}")


class StillNotApplicable(Refused):
    """No job can take the rejected message."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"no job can take this message: {detail}")
        self.reason = reason
