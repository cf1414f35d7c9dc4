"""Translates errors of the blob SDK to failures of a step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)

from lucius_service.errors import STORAGE_DENIED, STORAGE_UNAVAILABLE, FailedFinal, FailedRetry


@contextmanager
def storage_faults() -> Iterator[None]:
    """Translates errors of the SDK to StepFailed. The caller handles existing and missing blobs."""
    try:
        yield
    except (ResourceExistsError, ResourceNotFoundError):
        raise
    except ClientAuthenticationError as error:
        raise FailedFinal(STORAGE_DENIED, f"the storage account refused the service ({error.status_code})") from error
    except HttpResponseError as error:
        status = error.status_code or 0
        if 400 <= status < 500 and status not in (408, 412, 429):
            raise FailedFinal(STORAGE_DENIED, f"the storage account returned {status} ({error.reason})") from error
        raise FailedRetry(STORAGE_UNAVAILABLE, f"the storage account returned {status} ({error.reason})") from error
    except (AzureError, OSError) as error:
        raise FailedRetry(
            STORAGE_UNAVAILABLE, f"the storage account is unreachable ({type(error).__name__})"
        ) from error
