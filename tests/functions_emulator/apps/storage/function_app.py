"""Queue, blob and table triggers, inputs and outputs."""

import json

import azure.functions as func

app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)
STORAGE = "STORAGE_CONNECTION"


@app.route("enqueue/{word}", methods=["POST"])
@app.queue_output(arg_name="out", queue_name="incoming", connection=STORAGE)
async def enqueue(req: func.HttpRequest, out: func.Out[str]) -> str:
    out.set(json.dumps({"word": req.route_params["word"]}))
    return "queued"


@app.queue_trigger(arg_name="message", queue_name="incoming", connection=STORAGE)
@app.blob_output(arg_name="blob", path="words/{word}.txt", connection=STORAGE)
def to_blob(message: func.QueueMessage, blob: func.Out[str]) -> None:
    word = message.get_json()["word"]
    if word == "bad":
        raise ValueError("bad word")
    blob.set(f"{word} {message.dequeue_count}")


@app.blob_trigger(arg_name="blob", path="words/{name}.txt", connection=STORAGE)
@app.table_output(arg_name="$return", table_name="words", partition_key="w", row_key="{name}", connection=STORAGE)
def to_table(blob: func.InputStream) -> str:
    return json.dumps({"text": blob.read().decode(), "path": blob.name, "length": blob.length})


@app.route("word/{name}", methods=["GET"])
@app.table_input(arg_name="row", table_name="words", partition_key="w", row_key="{name}", connection=STORAGE)
@app.blob_input(arg_name="blob", path="words/{name}.txt", connection=STORAGE)
async def word(req: func.HttpRequest, row: str, blob: str) -> func.HttpResponse:
    if row is None:
        return func.HttpResponse(status_code=404)
    return func.HttpResponse(json.dumps({"row": json.loads(row), "blob": blob}))


@app.route("words", methods=["GET"])
@app.table_input(arg_name="rows", table_name="words", partition_key="w", take=10, connection=STORAGE)
async def words(req: func.HttpRequest, rows: str) -> str:
    return json.dumps(sorted(row["RowKey"] for row in json.loads(rows)))
