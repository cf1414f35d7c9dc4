"""The two ways a step fails, and the codes of the failures that every service shares (S3 13.3).

A step raises `FailedFinal` for what another attempt would meet again (a bad document, a bad payload) and
`FailedRetry` for what may pass (storage or a model endpoint out of reach). Any other exception is a bug of the
service: it is reported as retryable, since a new version of the service may well succeed, and it is logged in full.
"""

from __future__ import annotations

#: the input is not a blob of the configured account
REF_UNSUPPORTED = "REF_UNSUPPORTED"
INPUT_NOT_FOUND = "INPUT_NOT_FOUND"
INPUT_EMPTY = "INPUT_EMPTY"
INPUT_TOO_LARGE = "INPUT_TOO_LARGE"
#: the input is of a kind that this step cannot read
INPUT_TYPE_UNSUPPORTED = "INPUT_TYPE_UNSUPPORTED"
#: the input is of the right kind and damaged
INPUT_BROKEN = "INPUT_BROKEN"
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


class StepFailed(Exception):
    """A step ended without a result."""

    status = ""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class FailedFinal(StepFailed):
    """Another attempt would fail the same way."""

    status = "FAILED_FINAL"


class FailedRetry(StepFailed):
    """Another attempt may succeed."""

    status = "FAILED_RETRY"
