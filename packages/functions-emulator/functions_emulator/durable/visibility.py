"""When a queued message becomes visible, by the rules of Azure Storage queues."""

from __future__ import annotations

from datetime import datetime, timedelta


def delayed(until: datetime, now: datetime) -> datetime:
    """When a message is visible that is sent at `now` for `until`: up to one second too early, never later.

    DurableTask.AzureStorage sends the delay as it is (GetVisibilityDelay in Messaging/TaskHubQueue.cs), and the storage
    client cuts it to whole seconds, `(int?)visibilityTimeout?.TotalSeconds` (SendMessageInternal in QueueClient.cs of
    Azure.Storage.Queues). Nothing compares the time that was asked for when the message comes.
    """
    return now + timedelta(seconds=max(0, int((until - now).total_seconds())))
