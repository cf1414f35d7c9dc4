"""Types of public events: name, trigger, payload model and example of each (R70).

`/v1/schemas/events/{type}`, docs/asyncapi.json and docs/reference/events.md are made from these types. The models are
TypedDicts, so a payload is a plain dict and a commit does not pay for validation. Tests validate the events that the
app writes (`tests/event_checks.py`). A later version can add fields to a payload, but never removes a field.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Generic, Literal, NotRequired, Self, TypeAlias, TypeVar

from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict  # before Python 3.12 pydantic refuses `typing.TypedDict`

from shared.core.gates.breaker import BreakerState
from shared.core.gates.changes import ChangeType
from shared.core.gates.rules import GateKind
from shared.core.incidents import IncidentKind, IncidentState
from shared.core.jobs.states import JobStatus

T = TypeVar("T")


class PublicType(StrEnum):
    """The public types: those of jobs in the order of a job's life, then those of incidents, quotas and webhooks.

    Each type has a text with the cause of the event.
    """

    meaning: str

    def __new__(cls, name: str, meaning: str = "") -> Self:
        member = str.__new__(cls, name)
        member._value_, member.meaning = name, meaning
        return member

    WAITING = ("job.waiting", "The job was created and waits for other jobs.")
    THROTTLED = ("job.throttled", "The job waits for its quotas.")
    ADMITTED = ("job.admitted", "The waiting job was admitted. Its first directive follows.")
    QUEUED = ("job.queued", "The job was created. Its first directive follows.")
    LEASED = ("job.leased", "An attempt of a step was recorded. The directive of the attempt follows.")
    STARTED = (
        "job.started",
        "A service started work on the job. The cause is the first ACK, or a later reply that arrived before the ACK.",
    )
    PROGRESS = ("job.progress", "LUCIUS recorded a heartbeat that starts or renews the lease, or has new `progress`.")
    STEP_COMPLETED = ("job.step.completed", "A step succeeded.")
    RETRYING = (
        "job.retrying",
        "An attempt failed. Unless the job ends first, another attempt follows at `nextEligibleAt` or later.",
    )
    PAUSED = ("job.paused", "The job is paused and has no attempt in flight.")
    RESUMED = ("job.resumed", "The job was resumed, possibly before its attempts in flight had ended.")
    COMPLETED = ("job.completed", "The job succeeded.")
    FAILED = ("job.failed", "The job failed. No retry follows.")
    CANCELED = ("job.canceled", "The job was cancelled.")
    REDRIVEN = ("job.redriven", "A redrive created a new job from this job.")
    REPLAYED = ("job.replayed", "A replay created a new job from this job. A replay of an archived job has no event.")
    INCIDENT_OPENED = ("incident.opened", "LUCIUS found a condition that needs an operator.")
    INCIDENT_RESOLVED = (
        "incident.resolved",
        "The incident was resolved or dismissed, or its job was redriven. `status` has the final state.",
    )
    QUOTA_CHANGED = ("quota.changed", "A caller set or removed the limits, a hold or a throttle of a quota.")
    BREAKER_OPENED = (
        "breaker.opened",
        "The failure rate reached its limit, or a job failed while the breaker was half-open. The quota admits no job.",
    )
    BREAKER_CLOSED = (
        "breaker.closed",
        "The breaker closed, or a caller reset or removed the breaker. The breaker limits no starts.",
    )
    WEBHOOK_DISABLED = (
        "webhook.disabled",
        "A webhook was disabled, by a caller or because its endpoint returned 410.",
    )
    WEBHOOK_SUSPENDED = (
        "webhook.suspended",
        "Deliveries to a webhook failed for 24 hours without a success. "
        "Deliveries wait until a caller resumes the webhook.",
    )
    WEBHOOK_RESUMED = (
        "webhook.resumed",
        "A caller resumed or enabled a webhook. Its waiting deliveries continue.",
    )
    WEBHOOK_DEAD = ("webhook.dead", "LUCIUS abandoned deliveries of a webhook, or of `callback_urls`.")


#: events about webhooks (`shared.core.webhooks.hook_log`), which no webhook receives
OF_HOOKS = frozenset(each for each in PublicType if each.startswith("webhook."))
#: events about quotas and incidents (`shared.core.events.public_log_events`)
OF_LOGS = frozenset(each for each in PublicType if not each.startswith("job.")) - OF_HOOKS
#: events that also name a step and an attempt
OF_STEPS = frozenset(
    {PublicType.LEASED, PublicType.STARTED, PublicType.PROGRESS, PublicType.STEP_COMPLETED, PublicType.RETRYING}
)
#: events of terminal states; only `job.redriven` and `job.replayed` can follow
TERMINAL = frozenset({PublicType.COMPLETED, PublicType.FAILED, PublicType.CANCELED})


class Omitted(TypedDict):
    """The replacement of a value of more than `MAX_VALUE_BYTES`."""

    omitted: Annotated[int, Field(ge=1)]
    href: str


class Reference(TypedDict):
    uri: str


class Error(TypedDict, total=False):
    code: str
    message: str


class Gate(TypedDict, Generic[T]):
    id: str
    kind: T
    name: str


class Incident(TypedDict):
    id: str
    kind: IncidentKind
    subject: str
    code: str


_OMITTED = "Replacement for a value of more than 2 KiB: the size in bytes and the path of the value."
_GATE = Field(
    description="Quota of the event. `name` is the job type, source, mode, service or lane of the quota, and is empty "
    "for a quota of kind `tenant` or `platform`."
)

#: a value, or the object that replaces it if it is too large
Bounded: TypeAlias = T | Annotated[Omitted, Field(description=_OMITTED)]
Instant = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
Count = Annotated[int, Field(ge=0)]
Number = Annotated[int, Field(ge=1)]
Labels = Bounded[dict[str, str]]
Result = Annotated[Bounded[Reference], Field(description="Reference to the result.")]
RedriveOf = Annotated[str, Field(description="Id of the job that this job redrives.")]
ReplayOf = Annotated[str, Field(description="Id of the job that this job replays.")]
Setting = Annotated[
    dict[str, Any], Field(description="`rule`, `hold` and `throttle`. A value that is not set is null.")
]
BreakerGate = Annotated[Gate[Literal[GateKind.TYPE, GateKind.PLATFORM_TYPE]], _GATE]
Reason = Annotated[Bounded[str], Field(description="Reason, from the caller or from LUCIUS.")]
Detail = Annotated[Bounded[str], Field(description="Cause of the incident, in words.")]
OfIncident = Annotated[
    Incident, Field(description="The incident. `subject` is the job, quota, service or row of the incident.")
]

# a class cannot declare a member named `from`; a call can

JobPayload = TypedDict(
    "JobPayload",
    {
        "status": Annotated[JobStatus, Field(description="Status of the job after the event.")],
        "from": NotRequired[
            Annotated[JobStatus, Field(description="Previous status. Absent if the event created the job.")]
        ],
    },
)


class JobWaits(JobPayload, total=False):
    redriveOf: RedriveOf
    replayOf: ReplayOf


class JobEnded(JobPayload, total=False):
    duration: Annotated[float, Field(ge=0, description="Seconds from the job's creation until the job ended.")]
    result: Result
    error: Bounded[Error]
    redriveOf: RedriveOf
    replayOf: ReplayOf


class JobRedriven(JobPayload, total=False):
    redrivenBy: Annotated[str, Field(description="Id of the job that redrives this job.")]


class JobReplayed(JobPayload, total=False):
    replayedBy: Annotated[str, Field(description="Id of the job that replays this job.")]
    mode: Annotated[str, Field(description="`rerun` or `compare`.")]


class StepProgress(JobPayload, total=False):
    progress: Annotated[
        Bounded[Any], Field(description="Progress that the service reported. Set if the progress changed.")
    ]


class StepCompleted(JobPayload, total=False):
    result: Result


class StepRetrying(JobPayload, total=False):
    error: Bounded[Error]
    nextEligibleAt: Annotated[Instant, Field(description="Earliest time of the next attempt.")]


class IncidentOpened(TypedDict):
    status: Literal[IncidentState.OPEN]
    incident: OfIncident
    detail: NotRequired[Detail]
    reason: Reason


IncidentResolved = TypedDict(
    "IncidentResolved",
    {
        "status": Annotated[
            Literal[IncidentState.RESOLVED, IncidentState.RETRIED, IncidentState.DISMISSED],
            Field(description="State of the incident."),
        ],
        "from": Literal[IncidentState.OPEN],
        "incident": OfIncident,
        "detail": NotRequired[Detail],
        "reason": Reason,
        "retriedBy": NotRequired[Annotated[str, Field(description="Id of the job that redrives the failed job.")]],
    },
)


class QuotaChanged(TypedDict):
    change: Annotated[
        Literal[
            ChangeType.HELD, ChangeType.RESUMED, ChangeType.RULE_DELETED, ChangeType.RULE_SET, ChangeType.THROTTLED
        ],
        Field(description="Kind of change."),
    ]
    gate: Annotated[Gate[GateKind], _GATE]
    before: Bounded[Setting]
    after: Bounded[Setting]
    reason: Reason


BreakerOpened = TypedDict(
    "BreakerOpened",
    {
        "status": Literal[BreakerState.OPEN],
        "from": Annotated[
            BreakerState,
            Field(description="Previous state. `HALF_OPEN` if a job failed while the breaker was half-open."),
        ],
        "until": NotRequired[Annotated[Instant, Field(description="Time when the breaker becomes half-open.")]],
        "bad": NotRequired[Annotated[Count, Field(description="Number of failed jobs that opened the breaker.")]],
        "calls": NotRequired[Annotated[Count, Field(description="Number of jobs that the breaker counted.")]],
        "gate": BreakerGate,
        "reason": Reason,
    },
)
BreakerClosed = TypedDict(
    "BreakerClosed",
    {
        "status": Literal[BreakerState.CLOSED],
        "from": Literal[BreakerState.OPEN, BreakerState.HALF_OPEN],
        "gate": BreakerGate,
        "reason": Reason,
    },
)


class HookPayload(TypedDict):
    status: Annotated[
        Literal["ENABLED", "DISABLED", "SUSPENDED"], Field(description="State of the webhook after the event.")
    ]
    reason: Annotated[
        str,
        Field(
            description="Code of the reason, for example `CALLER`, `GONE`, `NO_SUCCESS`, `HTTP_{status}` or `EXPIRED`."
        ),
    ]


class HookDead(HookPayload):
    deliveries: Annotated[Number, Field(description="Number of abandoned deliveries.")]
    first: Annotated[Number, Field(description="Feed number of the first abandoned event.")]
    last: Annotated[Number, Field(description="Feed number of the last abandoned event.")]


#: job id in the examples
JOB = "job_6f1c0d3a9b5e4f7c8a2d1e0f9b8c7a65"
_ACCOUNT = "https://account.blob.core.windows.net"
_RESULT = f"{_ACCOUNT}/results/lease.json"
_LOCKED = {"code": "PDF_ENCRYPTED", "message": "the document is locked"}
_COUNTED = {"until": "2026-01-27T10:03:00.000000Z", "bad": 6, "calls": 10}
_WELL = "jobs succeeded after the breaker opened, or no job ended"
_RUNS = {"status": "IN_PROGRESS", "from": "IN_PROGRESS"}
_AT_GATE = {"id": "0f3a5b7c9d1e2f40", "kind": "tenant/type", "name": "OCR"}
_SET = {"rule": {"max_active": 5}, "hold": None, "throttle": None}
_HELD = {"reason": "blank pages", "actor": "user:1", "at": "2026-01-27T10:02:00.000000Z", "own": True}
_INCIDENT = {
    "incident": {"id": "inc_job_1", "kind": "JOB", "subject": "job_1", "code": "ATTEMPTS_EXHAUSTED"},
    "detail": "no ACK within 30 s",
}
_P = PublicType

#: model and example of `data.payload` for each type
PAYLOADS: Mapping[PublicType, tuple[Any, Mapping[str, Any]]] = {
    _P.WAITING: (JobWaits, {"status": "WAITING_FOR_JOBS"}),
    _P.THROTTLED: (JobWaits, {"status": "THROTTLED"}),
    _P.ADMITTED: (JobPayload, {"status": "QUEUED", "from": "THROTTLED"}),
    _P.QUEUED: (JobWaits, {"status": "QUEUED"}),
    _P.LEASED: (JobPayload, {"status": "QUEUED", "from": "QUEUED"}),
    _P.STARTED: (JobPayload, {"status": "IN_PROGRESS", "from": "QUEUED"}),
    _P.PROGRESS: (StepProgress, {**_RUNS, "progress": 0.4}),
    _P.STEP_COMPLETED: (
        StepCompleted,
        {**_RUNS, "result": {"uri": f"{_ACCOUNT}/workspace/lucius/acme/{JOB}/OCR/1/result.json"}},
    ),
    _P.RETRYING: (
        StepRetrying,
        {**_RUNS, "error": {"code": "LEASE_EXPIRED"}, "nextEligibleAt": "2026-01-27T10:02:05.000000Z"},
    ),
    _P.PAUSED: (JobPayload, {"status": "PAUSED", "from": "QUEUED"}),
    _P.RESUMED: (JobPayload, {"status": "QUEUED", "from": "PAUSED"}),
    _P.COMPLETED: (
        JobEnded,
        {"status": "SUCCEEDED", "from": "IN_PROGRESS", "duration": 45.2, "result": {"uri": _RESULT}},
    ),
    _P.FAILED: (
        JobEnded,
        {"status": "FAILED_FINAL", "from": "IN_PROGRESS", "duration": 12.5, "error": _LOCKED},
    ),
    _P.CANCELED: (JobEnded, {"status": "CANCELLED", "from": "CANCELLING", "duration": 12.5}),
    _P.REDRIVEN: (JobRedriven, {"status": "FAILED_FINAL", "from": "FAILED_FINAL", "redrivenBy": "job_" + "0" * 32}),
    _P.REPLAYED: (
        JobReplayed,
        {"status": "SUCCEEDED", "from": "SUCCEEDED", "replayedBy": "job_" + "0" * 32, "mode": "compare"},
    ),
    _P.INCIDENT_OPENED: (IncidentOpened, {"status": "OPEN", **_INCIDENT, "reason": "ATTEMPTS_EXHAUSTED"}),
    _P.INCIDENT_RESOLVED: (
        IncidentResolved,
        {"status": "RETRIED", "from": "OPEN", **_INCIDENT, "reason": "the service is back", "retriedBy": "job_2"},
    ),
    _P.QUOTA_CHANGED: (
        QuotaChanged,
        {"change": "HELD", "gate": _AT_GATE, "before": _SET, "after": {**_SET, "hold": _HELD}, "reason": "blank pages"},
    ),
    _P.BREAKER_OPENED: (
        BreakerOpened,
        {"status": "OPEN", "from": "CLOSED", **_COUNTED, "gate": _AT_GATE, "reason": "6 of 10 jobs failed"},
    ),
    _P.BREAKER_CLOSED: (
        BreakerClosed,
        {"status": "CLOSED", "from": "HALF_OPEN", "gate": _AT_GATE, "reason": _WELL},
    ),
    _P.WEBHOOK_DISABLED: (HookPayload, {"status": "DISABLED", "reason": "GONE"}),
    _P.WEBHOOK_SUSPENDED: (HookPayload, {"status": "SUSPENDED", "reason": "NO_SUCCESS"}),
    _P.WEBHOOK_RESUMED: (HookPayload, {"status": "ENABLED", "reason": "CALLER"}),
    _P.WEBHOOK_DEAD: (
        HookDead,
        {"status": "ENABLED", "reason": "HTTP_422", "deliveries": 1, "first": 1040, "last": 1040},
    ),
}
