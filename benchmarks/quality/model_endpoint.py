"""An OpenAI-compatible endpoint that plays a model without mistakes. The model answers if the passages have the answer.

Its figures show the upper bound that the passages and the citations of SIS allow a model.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from benchmarks.quality.documents import Question
from benchmarks.quality.judge import has_all

NAME = "without-mistakes"


class Recording:
    """Data of the endpoint: the questions of the current document."""

    def __init__(self) -> None:
        self._questions: dict[str, Question] = {}
        self.url = ""

    def play(self, questions: Iterable[Question]) -> None:
        self._questions = {question.prompt: question for question in questions}

    def reply(self, message: str) -> str:
        """Returns the content for SIS's message, which has numbered passages and the question."""
        passages, _, prompt = message.removeprefix("Passages:\n").rpartition("\n\nQuestion: ")
        question = self._questions[prompt]
        for number, passage in enumerate(passages.split("\n\n["), 1):
            if question.evidence and has_all(passage, question.evidence):
                answer = " and ".join(question.expect)
                return json.dumps({"answer": answer, "passage": number, "quote": question.expect[0]})
        return json.dumps({"answer": None, "passage": None, "quote": None})


@contextmanager
def serve() -> Iterator[Recording]:
    """Serves until the block ends."""
    recording = Recording()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            message = {"role": "assistant", "content": recording.reply(body["messages"][-1]["content"])}
            response = json.dumps({"choices": [{"message": message}]}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(response)))
            self.end_headers()
            self.wfile.write(response)

        def log_message(self, *_: Any) -> None:
            """Logs nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        recording.url = f"http://127.0.0.1:{server.server_port}/v1"
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield recording
        finally:
            server.shutdown()
