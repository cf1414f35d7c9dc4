"""Service Bus triggers that write one JSON line per message to the file `SEEN_FILE`."""

import asyncio
import json
import os
import typing

import azure.functions as func

app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)


def note(name: str, message: func.ServiceBusMessage) -> None:
    line = {
        "function": name,
        "body": message.get_body().decode(errors="backslashreplace"),
        "message_id": message.message_id,
        "correlation_id": message.correlation_id,
        "subject": message.subject,
        "content_type": message.content_type,
        "delivery_count": message.delivery_count,
        "sequence_number": message.sequence_number,
        "properties": message.application_properties,
        "enqueued": message.enqueued_time_utc.isoformat(),
        "lock_token": message.lock_token,
        "metadata": message.metadata["MessageId"],
    }
    with open(os.environ["SEEN_FILE"], "a") as out:
        out.write(json.dumps(line) + "\n")


@app.service_bus_topic_trigger(
    arg_name="message", topic_name="%TOPIC%", subscription_name="all", connection="BUS_CONNECTION"
)
async def from_topic(message: func.ServiceBusMessage) -> None:
    note("from_topic", message)


@app.service_bus_queue_trigger(arg_name="message", queue_name="work", connection="BUS_CONNECTION")
def from_queue(message: func.ServiceBusMessage) -> None:
    note("from_queue", message)
    if message.get_body() == b"bad":
        raise ValueError("cannot take this")


@app.service_bus_queue_trigger(
    arg_name="message", queue_name="bytes", connection="BUS_CONNECTION", data_type=func.DataType.BINARY
)
def from_bytes(message: func.ServiceBusMessage) -> None:
    note("from_bytes", message)


@app.service_bus_queue_trigger(arg_name="message", queue_name="slow", connection="BUS_CONNECTION")
async def slow(message: func.ServiceBusMessage) -> None:
    """Takes the number of seconds in the message; one that is `held` waits for the file `SEEN_FILE`.released."""
    if message.get_body().startswith(b"held"):
        while not os.path.exists(os.environ["SEEN_FILE"] + ".released"):  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.05)
    else:
        await asyncio.sleep(float(message.get_body()))
    note("slow", message)


@app.service_bus_queue_trigger(
    arg_name="messages", queue_name="batch", connection="BUS_CONNECTION", cardinality=func.Cardinality.MANY
)
async def in_batches(messages: typing.List[func.ServiceBusMessage]) -> None:  # noqa: UP006  # what the worker takes
    for message in messages:
        note(f"in_batches/{len(messages)}", message)


@app.service_bus_queue_trigger(
    arg_name="messages",
    queue_name="exact",
    connection="BUS_CONNECTION",
    cardinality=func.Cardinality.MANY,
    data_type=func.DataType.BINARY,
)
async def in_exact_batches(messages: typing.List[func.ServiceBusMessage]) -> None:  # noqa: UP006
    for message in messages:
        note("in_exact_batches", message)


@app.service_bus_queue_trigger(
    arg_name="message", queue_name="ordered", connection="BUS_CONNECTION", is_sessions_enabled=True
)
async def in_order(message: func.ServiceBusMessage) -> None:
    note(f"in_order/{message.session_id}", message)
    await asyncio.sleep(0.02)


@app.route("send", methods=["POST"])
@app.service_bus_queue_output(arg_name="out", queue_name="work", connection="BUS_CONNECTION")
@app.service_bus_topic_output(arg_name="published", topic_name="%TOPIC%", connection="BUS_CONNECTION")
async def send(req: func.HttpRequest, out: func.Out[str], published: func.Out[bytes]) -> str:
    out.set(req.params["queue"])
    if "topic" in req.params:
        published.set(req.params["topic"].encode())
    return "sent"
