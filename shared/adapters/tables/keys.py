"""Row and partition keys. Their order is the order that queries need."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from shared.core.records.canonical import digest, encode_key

JOB_ROW = "JOB"
#: row of an archived job, in the job's partition; sorts before EVENT, JOB and STEP
ARCHIVED_ROW = "ARCHIVED"
TENANTS_PARTITION = "tenants"

#: row of the tenant's admission state (R48)
GATES_ROW = "GATES"
#: row with the identity of the feeds' table
FEED_PARTITION, FEED_ROW = "=feed", "FEED"
#: partition of the feeds' table with one row for each tenant that has a feed
FEED_TENANTS_PARTITION = "=feeds"
HEAD_ROW = "HEAD"
#: row with the time until which a tenant's heads are complete
COMPLETE_ROW = "COMPLETE"
#: partition of the quotas' table with the directory of quotas
DIRECTORY_PARTITION = "directory"
#: partition of the quotas' table with incidents without a job, and the list of open incidents
INCIDENTS_PARTITION = "incidents"
#: partition of the quotas' table with one row per platform service
SERVICES_PARTITION = "services"
#: partition of the quotas' table with one row per version of a protocol
PROTOCOLS_PARTITION = "protocols"
#: partitions of allocation records, and of requests for allocations
BOOKS_PARTITION = "books"
ASKS_PARTITION = "asks"
#: partition with the bulk operations that the sweeper checks, and the time of each check
BULKS_PARTITION = "bulks"
#: partition of the index that no tenant's name encodes to: it begins with a lone =
GUARD_PARTITION = "=guard"
#: partition of the index with counts of the last hour, by minute
MINUTES_PARTITION = "=minutes"
#: rows with the mark and the position of a sweeper's last sweep; except for the first sweeper, its number follows after
#: a colon
SWEEP_ROW = "SWEEP"
POSITION_ROW = "POSITION"
#: row with the position of a sweeper's rollup of usage
FOLD_ROW = "FOLD"

#: minuend of the milliseconds since 1970 (13 digits), so that LIST and INCIDENT rows, for example, sort newest first
_FAR_FUTURE_MS = 9_999_999_999_999
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def step_row(index: int, step_id: str) -> str:
    return f"STEP:{index:04d}:{step_id}"


def event_row(seq: int) -> str:
    return f"EVENT:{seq:010d}"


def claim_row(claim: str) -> str:
    return f"CLAIM:{claim}"


def protocol_row(protocol_id: str, version: int) -> str:
    return f"PROTOCOL:{protocol_id}:{version:010d}"


def active_row(job_id: str) -> str:
    return f"ACTIVE:{job_id}"


def share_row(row: str, share: int) -> str:
    return f"{row}:{share}" if share else row


def due_row(check_at: datetime, job_id: str) -> str:
    """Returns a key that sorts by the time of the sweeper's next check of the job."""
    return f"{due_before(check_at)}:{job_id}"


def due_before(instant: datetime) -> str:
    """Returns a key after every DUE row that is due before that time."""
    # a 14th digit would sort the row before all others and make it due in every sweep
    return f"DUE:{min(_millis(instant), _FAR_FUTURE_MS):013d}"


def wait_row(line: int, rank: int, job_id: str) -> str:
    """Returns a key that sorts by queue, then by position in the queue."""
    return f"WAIT:{line:04d}:{rank:013d}:{job_id}"


def freed_row(job_id: str) -> str:
    return f"FREED:{job_id}"


def dependant_row(upstream: str, job_id: str) -> str:
    """Returns a key that sorts by the dependency."""
    return f"DEP:{upstream}:{job_id}"


def failed_dependant_row(upstream: str, job_id: str) -> str:
    """Returns a key that sorts by the job that did not succeed."""
    return f"DEPFAILED:{upstream}:{job_id}"


def after_line(line: int) -> str:
    """Returns the key after every WAIT row of the queue and before the rows of the next queue."""
    return f"WAIT:{line:04d};"


def gate_log_row(gate_id: str, seq: int) -> str:
    return f"GATELOG:{gate_id}:{seq:010d}"


def usage_row(hour: datetime, part: str) -> str:
    """Returns a key that sorts by the hour."""
    return f"{usage_before(hour)}:{part}"


def usage_before(hour: datetime) -> str:
    """Returns the upper bound of the keys of USAGE rows of earlier hours."""
    return f"USAGE:{_hour(hour)}"


def source_row(name: str) -> str:
    """Returns the key of a source's row. A source can be any text."""
    return f"SOURCE:{digest(name)}"


def fold_again_row(hour: datetime | None, tenant: str) -> str:
    """Returns the key of an hour that will be summed up again, sorted by the hour. `hour` None means the key before
    every hour.
    """
    return f"REFOLD:{_hour(hour)}:{encode_key(tenant)}" if hour is not None else "REFOLD:"


def bulk_row(bulk_id: str) -> str:
    return f"BULK:{bulk_id}"


def bulk_slot_row(number: int) -> str:
    return f"BULKSLOT:{number:02d}"


def bulk_key_row(key: str) -> str:
    return f"BULKKEY:{key}"


def bulk_item_row(bulk_id: str, job_id: str) -> str:
    return f"BULKITEM:{bulk_id}:{job_id}"


def bulk_work_row(bulk_id: str, no: int) -> str:
    """Returns a key that sorts by the number of the `Work`."""
    return f"BULKWORK:{bulk_id}:{no:010d}"


def bulk_due_row(due_at: datetime, bulk_id: str) -> str:
    """Returns a key that sorts by the time of the sweeper's next check of the bulk operation."""
    return f"{bulk_due_before(due_at)}:{bulk_id}"


def bulk_due_before(instant: datetime) -> str:
    return f"{_millis(instant):013d}"


def seen_row(job_id: str) -> str:
    return f"SEEN:{job_id}"


def head_row(day: date, name: str) -> str:
    """Returns a key that sorts by the day."""
    return f"{heads_before(day)}:{name}"


def heads_before(day: date) -> str:
    """Returns a key after every DAY row of an earlier day."""
    return f"DAY:{day:%Y%m%d}"


def feed_event_row(number: int) -> str:
    return f"E:{number:020d}"


#: key after every E row
AFTER_FEED_EVENTS = "E;"

#: partition of the feeds' table with the tenants whose webhooks the sweeper checks
HOOK_TENANTS_PARTITION = "=hooks"
_MAX_NUMBER = 10**20 - 1
#: maximum length of a callback's name in a key; a longer one is replaced by its digest
_MAX_NAME = 200


def hook_row(hook_id: str) -> str:
    return f"HOOK:{hook_id}"


def hook_log_row(hook_id: str, seq: int) -> str:
    return f"HOOKLOG:{hook_id}:{seq:010d}"


def pending_row(hook_id: str, number: int, name: str) -> str:
    """Returns a key that sorts by the event's number."""
    return f"PENDING:{hook_id}:{number:020d}{_name_part(name)}"


def delivery_row(hook_id: str, number: int, name: str) -> str:
    """Returns a key that sorts deliveries newest first."""
    return f"DELIVERY:{hook_id}:{_MAX_NUMBER - number:020d}{_name_part(name)}"


def _name_part(name: str) -> str:
    if not name:
        return ""
    key = encode_key(name)
    return f":{key}" if len(key) <= _MAX_NAME else f":{digest(name)}"


def ended_row(clear_at: datetime, job_id: str) -> str:
    """Returns a key that sorts by `clear_at`, so that due rows are one range of keys."""
    return f"{ended_before(clear_at)}:{job_id}"


def ended_before(instant: datetime) -> str:
    """Returns a key after every ENDED row that is due before that time."""
    return f"ENDED:{_millis(instant):013d}"


def list_row(created_at: datetime, job_id: str) -> str:
    return f"LIST:{_FAR_FUTURE_MS - _millis(created_at):013d}:{job_id}"


def archived_row(created_at: datetime, job_id: str) -> str:
    """Returns a key that sorts in the same order as keys of LIST rows."""
    return f"ARCHIVED:{list_row(created_at, job_id).partition(':')[2]}"


def correlation_row(correlation_id: str, listed: str) -> str:
    """Returns a key that sorts by the correlation id, which can be any text, then as the LIST row with key `listed`."""
    return f"CORRELATION:{digest(correlation_id)}:{listed.partition(':')[2]}"


def dead_row(ended_at: datetime, job_id: str) -> str:
    return f"DEAD:{_FAR_FUTURE_MS - _millis(ended_at):013d}:{job_id}"


def newest_first(prefix: str, opened_at: datetime, incident_id: str) -> str:
    """Returns a key that sorts INCIDENT rows, and rows that name INCIDENT rows, newest first.

    The key has whole milliseconds, as in an incident's id.
    """
    millis = (opened_at - _EPOCH) // timedelta(milliseconds=1)
    return f"{prefix}:{_FAR_FUTURE_MS - millis:013d}:{incident_id}"


def incident_log_row(incident_id: str, seq: int) -> str:
    return f"INCIDENTLOG:{incident_id}:{seq:010d}"


def minute_row(minute: datetime) -> str:
    """Returns a key that sorts by the minute."""
    return f"MINUTE:{minute.astimezone(UTC):%Y%m%d%H%M}"


def _hour(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y%m%d%H}"


def _millis(instant: datetime) -> int:
    return int(instant.astimezone(UTC).timestamp() * 1000)
