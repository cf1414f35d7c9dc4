"""The sample documents through OCR, EMBEDDING and SIS: right words, right pages, and null where there is no answer."""

from __future__ import annotations

import json
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pypdfium2
import pytest
from numpy.typing import NDArray
from PIL import Image

from platform_service.embedding.step import EmbeddingStep
from platform_service.ocr.step import OcrStep
from platform_service.sis.step import SisStep
from samples.make_samples import SAMPLES
from tests.lucius_service.blob_account import BlobAccount
from tests.lucius_service.invoker import Invoker
from tests.lucius_service.service_process import ROOT, launch
from tests.lucius_service.step_runner import StepRunner
from tests.platform_service.hostile_pdf import hostile_pdf

FOLDER = ROOT / "samples"
QUESTIONS: dict[str, list[dict[str, Any]]] = json.loads((FOLDER / "questions.json").read_text())


def prompts(questions: list[dict[str, Any]]) -> dict[str, Any]:
    return {"prompt_set": [{"id": question["id"], "prompt": question["prompt"]} for question in questions]}


def check(questions: list[dict[str, Any]], answers: list[dict[str, Any]]) -> None:
    assert [question["id"] for question in questions] == [answer["id"] for answer in answers]
    for question, answer in zip(questions, answers, strict=True):
        if question["expect"] is None:
            assert (answer["answer"], answer["citation"]) == (None, None), question["id"]
            assert answer["passages"], "a missing answer comes with the nearest passages"
            continue
        assert answer["answer"] is not None, question["id"]
        for words in question["expect"]:
            assert words in answer["answer"], question["id"]
        citation = answer["citation"]
        assert question["page"] == citation["page"]
        cited = next(passage for passage in answer["passages"] if passage["chunk"] == citation["chunk"])
        assert " ".join(citation["quote"].split()) in " ".join(cited["text"].split())


@pytest.mark.parametrize("name", QUESTIONS)
def test_answers_are_right_and_cited(
    name: str, runner: StepRunner, ocr: OcrStep, embedding: EmbeddingStep, sis: SisStep
) -> None:
    """Each question finds the expected words on the expected page."""
    text = runner.run(ocr, (FOLDER / name).read_bytes(), name=name)
    vectors = runner.run(embedding, text.outcome.result_ref)
    answers = runner.run(sis, vectors.outcome.result_ref, prompts(QUESTIONS[name]))
    check(QUESTIONS[name], answers.result["answers"])


def pixels(name: str, data: bytes) -> NDArray[np.float64]:
    """All pages, rendered small: builds of zlib compress the same page to different bytes."""
    if name.endswith(".pdf"):
        pages = [page.render(scale=1).to_pil() for page in pypdfium2.PdfDocument(data)]
    else:
        pages = [Image.open(BytesIO(data))]
    return np.concatenate([np.asarray(page.convert("L"), float) for page in pages])


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_those_of_the_script(name: str) -> None:
    """The committed documents have questions, and equal the output of make_samples.py."""
    assert name in QUESTIONS
    committed, generated = pixels(name, (FOLDER / name).read_bytes()), pixels(name, SAMPLES[name]())
    assert committed.shape == generated.shape
    assert np.abs(committed - generated).mean() < 0.5


@pytest.mark.long
def test_the_three_services_over_the_bus(
    tmp_path: Path, environment: dict[str, str], invoker: Invoker, account: BlobAccount
) -> None:
    """The scan is processed by each service as a process, as in `make demo`, and without LUCIUS."""
    name = "minutes-scan.pdf"
    services = ("ocr", "embedding", "sis")
    with ExitStack() as stack:
        started = []
        for service in services:
            started.append(launch(("-m", "platform_service", service), tmp_path / service, environment))
            stack.callback(started[-1].close)
        uri = account.upload(name, (FOLDER / name).read_bytes())
        for process, service, payload in zip(started, services, (None, {}, prompts(QUESTIONS[name])), strict=True):
            process.wait_ready(service)
            directive = invoker.directive(service.upper(), payload, input_ref={"uri": uri})
            invoker.send(directive, service.upper())
            result = invoker.result(directive["jobId"])
            assert result["status"] == "SUCCEEDED", result
            uri = result["result_ref"]["uri"]
            assert uri.startswith(directive["workspace_ref"]["uri"] + service + "/")
        check(QUESTIONS[name], json.loads(account.download(uri))["answers"])


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
def test_a_hostile_pdf_costs_one_attempt(
    workers: int, tmp_path: Path, environment: dict[str, str], invoker: Invoker, account: BlobAccount
) -> None:
    """Its child is killed at the limit, the RESULT names it, and the next document is read.

    With another worker, that document is not delayed.
    """
    # longer than the good document takes on a busy machine
    limits = {"LUCIUS_ATTEMPT_MAX_SECONDS": str(20 * workers), "LUCIUS_SERVICE_WORKERS": str(workers)}
    settings = {**environment, **limits}
    service = launch(("-m", "platform_service", "ocr"), tmp_path / "ocr.log", settings)
    try:
        service.wait_ready("ocr")
        sent = []
        for name, data in (("hostile.pdf", hostile_pdf()), ("good.png", (FOLDER / "invoice.png").read_bytes())):
            uri = account.upload(f"{uuid4()}/{name}", data)
            sent.append(invoker.directive("OCR", None, input_ref={"uri": uri}))
            invoker.send(sent[-1], "OCR")
        if workers > 1:
            invoker.result(sent[1]["jobId"])
            assert invoker.replies(sent[0]["jobId"], "RESULT") == []
        hostile, good = (invoker.result(directive["jobId"]) for directive in sent)
        assert (hostile["status"], hostile["error"]["code"]) == ("FAILED_FINAL", "LIMIT_EXCEEDED")
        assert good["status"] == "SUCCEEDED", good
        assert service.stop() == 0
    finally:
        service.close()
