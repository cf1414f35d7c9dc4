"""SIS: answers, extractive and by a model endpoint, with citations."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from lucius_service.errors import FailedFinal, FailedRetry, StepFailed
from platform_service.embedding.step import EmbeddingStep
from platform_service.settings import ModelEndpoint
from platform_service.sis.step import SisStep
from tests.lucius_service.step_runner import StepRunner

LEASE = (
    b"Lease of the flat at 9 Quay Road. The landlord is Agnes Marlow. The rent is 940 euros per month and is due on "
    b"the third working day.\n\nThe deposit is two months' rent and is kept in a separate account.\f"
    b"Pets need the written consent of the landlord. Either party may end the lease with a notice period of three "
    b"months. The flat must be handed back in a clean state."
)


@dataclass
class Endpoint:
    """An OpenAI-compatible server whose responses a test sets."""

    url: str = ""
    status: int = 200
    content: str = ""
    requests: list[tuple[dict[str, str], dict[str, Any]]] = field(default_factory=list)


@contextmanager
def model_server() -> Iterator[Endpoint]:
    endpoint = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            endpoint.requests.append(({**self.headers, "path": self.path}, body))
            message = {"role": "assistant", "content": endpoint.content}
            response = json.dumps({"choices": [{"message": message}]}).encode()
            self.send_response(endpoint.status)
            self.send_header("content-length", str(len(response)))
            self.end_headers()
            self.wfile.write(response)

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        endpoint.url = f"http://127.0.0.1:{server.server_port}/v1"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield endpoint
        server.shutdown()
        thread.join()


def ask(runner: StepRunner, step: SisStep, *prompts: Any, **payload: Any) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = runner.run(step, LEASE, {"prompt_set": list(prompts), **payload}).result["answers"]
    return answers


def test_answers_come_from_plain_text(runner: StepRunner, sis: SisStep) -> None:
    """SIS splits and embeds plain text itself; questions that are strings have their number as id."""
    rent, notice, landlord = ask(
        runner,
        sis,
        "How much is the rent?",
        "How long is the notice period?",
        {"id": "who", "prompt": "Who is the landlord?"},
    )
    assert (rent["id"], notice["id"], landlord["id"]) == ("1", "2", "who")
    assert "940 euros" in rent["answer"]
    assert ("three months" in notice["answer"], 2) == (True, notice["citation"]["page"])
    assert "Agnes Marlow" in landlord["answer"]


PRICES = """Price list
Article no. | Item | Pack size | Price EUR
KT-1 | Oak board 60 mm | 40 | 3.10
KT-2 | Oak board 75 mm | 25 | 4.35
KT-3 | Pine batten and clips | 10 | 6.90
"""
FORM = """Surname * | Hale
E-mail | hale@quay.example
Registration | QZ-771 | Paid on | 4 May 2025
"""
STAFF = """Name | Department | Role | Room 2026
Ole Ray | Works | Clerk | 12
Ada Moe | Works | Cook | 14
\fKarl Lund | Office | Clerk | 15
"""
PARTS = """Part | Supplier | Price
Valve | Ray | 3.20
Pump | Moss | 12.50
"""
ORDER = """Valve | Ray | red | 3.20
Total | EUR 3.20
"""
DUTIES = """1. | The tenant pays the water and the heating.
2. | The landlord repairs the roof within ten days.
"""
MINUTES = """Present: Ines Holm (chair), Tom Quayle, Leo Abara (treasurer)

5. Next meeting

The next meeting is on 6 November 2025 at 18:30 in the same room. The meeting closed at 20:05.
"""


@pytest.mark.parametrize(
    ("text", "question", "expected"),
    [
        (PRICES, "What is the price of the oak board 75 mm?", "Item: Oak board 75 mm, Price EUR: 4.35"),
        (PRICES, "What is the article number of the oak board 60 mm?", "Article no.: KT-1, Item: Oak board 60 mm"),
        (PRICES, "Which item has the article number KT-3?", "Article no.: KT-3, Item: Pine batten and clips"),
        (PRICES, "What is the price of the clips?", "Item: Pine batten and clips, Price EUR: 6.90"),
        (PRICES, "What is the price of the oak board 90 mm?", None),
        (PRICES, "What is the colour of the oak board 75 mm?", None),
        (FORM, "What is the surname?", "Surname: Hale"),
        (FORM, "What is the e-mail address?", "E-mail: hale@quay.example"),
        (FORM, "What is the registration of the vehicle?", "Registration: QZ-771"),
        (f"{FORM}Monthly price | 940", "What is the price?", "Monthly price: 940"),
        (STAFF, "Which role does Karl Lund have?", "Karl Lund, Office, Clerk, 15"),
        (STAFF, "Which room has Ole Ray?", "Ole Ray, Works, Clerk, 12"),
        (PARTS, "Who supplies the valve?", "Part: Valve, Supplier: Ray"),
        (PARTS, "What is the cost of the valve?", "Part: Valve, Price: 3.20"),
        (ORDER, "What is the total?", "Total: EUR 3.20"),
        (ORDER, "How much is the valve?", "Valve, Ray, red, 3.20"),
        (ORDER, "How much is the red?", "Valve, Ray, red, 3.20"),
        (DUTIES, "Who repairs the roof?", "2. The landlord repairs the roof within ten days."),
        (PARTS, "Look at the table. What is the price of the valve?", "Part: Valve, Price: 3.20"),
        (PARTS, "What is the price of the valve that I need?", "Part: Valve, Price: 3.20"),
        (MINUTES, "Who chaired the meeting?", "Ines Holm (chair)"),
        (MINUTES, "When is the next meeting?", "The next meeting is on 6 November 2025 at 18:30 in the same room."),
    ],
)
def test_rows_fields_and_roles_answer(
    text: str, question: str, expected: str | None, runner: StepRunner, sis: SisStep
) -> None:
    """Any cell names its row, and a form has no header; a value that a row lacks is null."""
    (answer,) = runner.run(sis, text.encode(), {"prompt_set": [question]}).result["answers"]
    assert answer["answer"] == expected
    assert expected is None or answer["citation"]["quote"] in text


@pytest.mark.parametrize(
    ("text", "near_miss", "question"),
    [
        (PARTS, "How heavy is the valve?", "What is the price of the valve?"),
        (STAFF, "Which role does Anna Ole Ray have?", "Which role does Ole Ray have?"),
        (LEASE.decode(), "How long is the notice period of the garage?", "How long is the notice period?"),
    ],
)
def test_one_absent_thing_makes_a_near_miss_null(
    text: str, near_miss: str, question: str, runner: StepRunner, sis: SisStep
) -> None:
    """A question gets null if the document has all of its words but a name or a noun."""
    missed, answered = runner.run(sis, text.encode(), {"prompt_set": [near_miss, question]}).result["answers"]
    assert (missed["answer"], missed["citation"]) == (None, None)
    assert answered["answer"]


def test_vectors_and_text_give_the_same_answer(runner: StepRunner, sis: SisStep, embedding: EmbeddingStep) -> None:
    """The answer is the same whether EMBEDDING embedded the text or SIS."""
    vectors = runner.run(embedding, LEASE).outcome.result_ref
    payload = {"prompt_set": ["What is the deposit?"]}
    (from_vectors,) = runner.run(sis, vectors, payload).result["answers"]
    (from_text,) = runner.run(sis, LEASE, payload).result["answers"]
    assert from_text["answer"] == from_vectors["answer"]
    assert "two months' rent" in from_text["answer"]


def test_no_answer_is_null_with_the_nearest_passage(runner: StepRunner, sis: SisStep) -> None:
    """A question that the document does not answer gets null, and the nearest passages."""
    (answer,) = ask(runner, sis, "Which engine oil does the tractor need?")
    assert (answer["answer"], answer["citation"]) == (None, None)
    assert answer["score"] < 0.4
    assert answer["passages"][0]["text"]


def test_min_score_and_top_k_are_used(runner: StepRunner, sis: SisStep) -> None:
    """min_score 1 accepts no answer; top_k limits the passages."""
    (answer,) = ask(runner, sis, "How much is the rent?", min_score=1, top_k=1)
    assert (answer["answer"], len(answer["passages"])) == (None, 1)


def test_a_model_words_the_answer_with_a_citation(runner: StepRunner) -> None:
    """The configured endpoint gets the passages, and its quote is checked against them."""
    with model_server() as endpoint:
        step = SisStep(model=ModelEndpoint(endpoint.url, "tiny-1", "key-1"))
        endpoint.content = (
            'Sure: {"answer": "940 euros a month", "passage": 1, "quote": "The rent is 940 euros per month"}'
        )
        (answer,) = ask(runner, step, "How much is the rent?")
        headers, body = endpoint.requests[0]
    assert (answer["answer"], answer["method"]) == ("940 euros a month", "model:tiny-1")
    assert (answer["citation"]["quote"], answer["citation"]["page"]) == ("The rent is 940 euros per month", 1)
    assert (headers["path"], headers["Authorization"]) == ("/v1/chat/completions", "Bearer key-1")
    assert body["model"] == "tiny-1"
    assert "How much is the rent?" in body["messages"][-1]["content"]
    assert "The rent is 940 euros per month" in body["messages"][-1]["content"]


@pytest.mark.parametrize(
    "content",
    [
        '{"answer": "three months", "passage": 99, "quote": "a notice period of three months"}',
        '{"answer": "a notice period of three months", "passage": null, "quote": "words that stand nowhere"}',
        "The notice period is three months.",
    ],
)
def test_a_wrong_citation_is_replaced_by_a_true_one(content: str, runner: StepRunner) -> None:
    """If no passage has the quote, the nearest sentence of the document is cited."""
    with model_server() as endpoint:
        endpoint.content = content
        step = SisStep(model=ModelEndpoint(endpoint.url, "tiny-1"))
        (answer,) = ask(runner, step, "How long is the notice period?")
    assert "three months" in answer["answer"]
    assert "notice period of three months" in answer["citation"]["quote"]
    assert answer["citation"]["page"] == 2


def test_a_model_may_give_no_answer(runner: StepRunner) -> None:
    """Null from the model is null in the result."""
    with model_server() as endpoint:
        endpoint.content = '{"answer": null, "passage": null, "quote": null}'
        (answer,) = ask(runner, SisStep(model=ModelEndpoint(endpoint.url, "tiny-1")), "How much is the rent?")
    assert (answer["answer"], answer["citation"]) == (None, None)


@pytest.mark.parametrize(
    ("status", "failure", "code"),
    [
        (503, FailedRetry, "MODEL_UNAVAILABLE"),
        (429, FailedRetry, "MODEL_UNAVAILABLE"),
        (401, FailedFinal, "MODEL_REFUSED"),
    ],
)
def test_errors_of_the_endpoint_have_their_class(
    status: int, failure: type[StepFailed], code: str, runner: StepRunner
) -> None:
    """A busy or broken endpoint is retryable; a refusal is not."""
    with model_server() as endpoint:
        endpoint.status = status
        with pytest.raises(failure) as failed:
            ask(runner, SisStep(model=ModelEndpoint(endpoint.url, "tiny-1", "key-1")), "How much is the rent?")
    assert code == failed.value.code
    assert "key-1" not in failed.value.message


def test_an_endpoint_out_of_reach_is_retryable(runner: StepRunner) -> None:
    """A refused connection is FAILED_RETRY."""
    with model_server() as gone:
        pass
    with pytest.raises(FailedRetry, match="MODEL_UNAVAILABLE"):
        ask(runner, SisStep(model=ModelEndpoint(gone.url, "tiny-1")), "How much is the rent?")


def test_a_document_of_two_letters_is_searched(runner: StepRunner, sis: SisStep) -> None:
    """The smallest text gives no answer and no fault."""
    (answer,) = runner.run(sis, b"ok", {"prompt_set": ["How much is the rent?"]}).result["answers"]
    assert (answer["answer"], answer["passages"][0]["text"]) == (None, "ok")


def test_broken_vectors_fail_for_good(runner: StepRunner, sis: SisStep) -> None:
    """A vector document without its vectors is refused."""
    data = json.dumps({"format": "lucius.vectors/1", "model": "wordllama-l2_supercat-256", "chunks": [{"text": "x"}]})
    with pytest.raises(FailedFinal, match="INPUT_BROKEN"):
        runner.run(sis, data.encode(), {"prompt_set": ["Anything?"]})
