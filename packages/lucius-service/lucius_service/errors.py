"""Failures of a step, and the codes that services share (docs/guides/platform-services.md).

A step raises `FailedFinal` if every other attempt fails in the same way (an invalid document or payload). A step raises
`FailedRetry` if another attempt may succeed (storage or a model endpoint is unreachable). Any other exception is a bug
of the service. The failure is then retryable, since a new version of the service may succeed.

The log has the full exception of a bug. In a child process, MemoryError is not a bug, but FailedFinal with the code
LIMIT_EXCEEDED.
"""

from __future__ import annotations

#: a reference is missing, does not name a blob of the configured account, or belongs to another tenant
REF_UNSUPPORTED = "REF_UNSUPPORTED"
INPUT_NOT_FOUND = "INPUT_NOT_FOUND"
INPUT_EMPTY = "INPUT_EMPTY"
INPUT_TOO_LARGE = "INPUT_TOO_LARGE"
#: the input is of a kind that this step cannot read
INPUT_TYPE_UNSUPPORTED = "INPUT_TYPE_UNSUPPORTED"
#: the input is of a supported kind, but damaged
INPUT_BROKEN = "INPUT_BROKEN"
#: `output_ref` names a blob that the job did not write
OUTPUT_EXISTS = "OUTPUT_EXISTS"
PAYLOAD_INVALID = "PAYLOAD_INVALID"
PDF_ENCRYPTED = "PDF_ENCRYPTED"
PDF_BROKEN = "PDF_BROKEN"
IMAGE_BROKEN = "IMAGE_BROKEN"
NO_TEXT_FOUND = "NO_TEXT_FOUND"
STORAGE_DENIED = "STORAGE_DENIED"
STORAGE_UNAVAILABLE = "STORAGE_UNAVAILABLE"
MODEL_REFUSED = "MODEL_REFUSED"
MODEL_UNAVAILABLE = "MODEL_UNAVAILABLE"
SERVICE_FAULT = "SERVICE_FAULT"
#: the work reached a limit of time, silence or memory
LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
#: the job is cancelled, or its attempt has ended
CANCELLED = "CANCELLED"
RESULT_TOO_LARGE = "RESULT_TOO_LARGE"


class StepFailed(Exception):
    """A step failed. The RESULT has `status`, `code` and `message`."""

    #: status in the RESULT: FAILED_FINAL or FAILED_RETRY
    status = ""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class FailedFinal(StepFailed):
    """Every other attempt fails in the same way."""

    status = "FAILED_FINAL"


class FailedRetry(StepFailed):
    """Another attempt may succeed."""

    status = "FAILED_RETRY"
