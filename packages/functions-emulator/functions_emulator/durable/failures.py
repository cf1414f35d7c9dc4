"""The texts of failures, as the extension makes them for an app in Python.

The SDK raises `REASON \n DETAILS` at an orchestrator's await of a failed call. The details are exceptions of .NET.
Their stacks do not exist here, so `NET_STACK` replaces each stack.

Sources in the extension: TaskActivityShim and OutOfProcExceptionHelpers (activities), TaskOrchestrationShim and
OutOfProcOrchestrationShim (orchestrators).
"""

from __future__ import annotations

import json
from typing import Any

#: some kB of .NET on Azure
NET_STACK = "   at (a .NET stack trace)"

#: `Exception.HResult` of exceptions without their own, COR_E_EXCEPTION
_HRESULT = -2146233088


def activity_failure(name: str, text: str, stack: str) -> tuple[str, str]:
    """Returns reason and details for an activity that raised an exception. `text` is `TYPE: MESSAGE`, and `stack` is
    the formatted traceback.
    """
    message = _worker_message(text, stack)
    # OutOfProcExceptionHelpers takes the text between the labels, with the space after the first one.
    friendly = message.split("\nException:", 1)[1].split("\nStack:", 1)[0]
    inner = {
        "$type": "Microsoft.Azure.WebJobs.Script.Workers.Rpc.RpcException, Microsoft.Azure.WebJobs.Script",
        "IsUserException": False,
        "RemoteStackTrace": stack,
        "RemoteMessage": text,
        "RemoteTypeName": None,
        "Message": message,
        "Data": {"$type": "System.Collections.ListDictionaryInternal, System.Private.CoreLib"},
        "InnerException": None,
        "HelpLink": None,
        "Source": "System.Private.CoreLib",
        "HResult": _HRESULT,
        "StackTrace": NET_STACK,
    }
    details = _exception("System.Exception, System.Private.CoreLib", friendly, inner)
    return f"Activity function '{name}' failed: {friendly}", details


def http_failure(message: str) -> tuple[str, str]:
    """Returns reason and details for an HTTP call that failed."""
    details = _exception("System.Net.Http.HttpRequestException, System.Net.Http", message, None, NET_STACK)
    return message, details


def error_without_state(text: str, stack: str) -> str:
    """Returns the error of an orchestrator function that raised an exception before the SDK ran its code."""
    return f"One or more errors occurred. ({_worker_message(text, stack)})"


def orchestrator_reason(name: str, error: str) -> str:
    """Returns the output of an orchestration that failed, and the reason that its parent gets."""
    return f"Orchestrator function '{name}' failed: {error}"


def orchestrator_details(error: str) -> str:
    """Returns the details that the parent of a failed orchestration gets."""
    return f"Message: {error}, StackTrace: {NET_STACK}"


def _worker_message(text: str, stack: str) -> str:
    """Returns the message of the host's RpcException, which has the text that the Python worker sent."""
    return f"Result: Failure\nType: \nException: {text}\nStack: {stack}"


def _exception(type_name: str, message: str, inner: dict[str, Any] | None, stack: str | None = None) -> str:
    """Returns an exception as Newtonsoft.Json serializes it (`Exception.GetObjectData`)."""
    members = {
        "$type": type_name,
        "ClassName": type_name.split(",")[0],
        "Message": message,
        "Data": None,
        "InnerException": inner,
        "HelpURL": None,
        "StackTraceString": stack,
        "RemoteStackTraceString": None,
        "RemoteStackIndex": 0,
        "ExceptionMethod": None,
        "HResult": _HRESULT,
        "Source": None,
        "WatsonBuckets": None,
    }
    return json.dumps(members, separators=(",", ":"), ensure_ascii=False)
