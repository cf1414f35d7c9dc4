"""Runs the three services over the documents of a half, and counts errors, hits and correct answers."""

from __future__ import annotations

import json
import random
import resource
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.quality import judge
from benchmarks.quality.documents import Document, Question, make_documents
from benchmarks.quality.layout import Drawn, draw
from benchmarks.quality.model_endpoint import NAME, Recording
from benchmarks.quality.scans import CONDITIONS, scan
from lucius_service.errors import StepFailed
from lucius_service.testing import run_step
from platform_service.embedding.step import EmbeddingStep
from platform_service.ocr.step import OcrStep
from platform_service.settings import ModelEndpoint
from platform_service.sis.step import SisStep

#: number of scans of the first page of each document whose characters are compared
SCANS_OF_A_DOCUMENT = 3
#: the condition of the second document of each kind, in turn
SCANNED = ("light noise", "turned 90", "medium noise", "skewed", "turned 180", "heavy noise")


@dataclass
class Failure:
    """A question without a correct answer, which is shown for the development half only."""

    document: str
    question: Question
    answer: str | None
    #: rank of the passage that proves the answer
    rank: int | None


@dataclass
class Figures:
    """Counts for one half of the documents."""

    errors: Counter[str] = field(default_factory=Counter)
    characters: Counter[str] = field(default_factory=Counter)
    questions: Counter[str] = field(default_factory=Counter)
    right: Counter[str] = field(default_factory=Counter)
    top_1: Counter[str] = field(default_factory=Counter)
    top_3: Counter[str] = field(default_factory=Counter)
    cpu_s: Counter[str] = field(default_factory=Counter)
    pages: Counter[str] = field(default_factory=Counter)
    #: correct answers with the model endpoint that cite the right page too
    model_right: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """Returns rates, numbers of questions, and CPU seconds per page."""
        return {
            "character_error_rate": _rates(self.errors, self.characters),
            "passage_top_1": _rates(self.top_1, self.questions, without=("absent", "near")),
            "passage_top_3": _rates(self.top_3, self.questions, without=("absent", "near")),
            "answers_right": _rates(self.right, self.questions, without=("near",)),
            "answers_right_model": _rates(self.model_right, self.questions, without=("near",)),
            # counted apart, so that other figures can be compared with older ones
            "near_misses_null": {"all": self.right["near"] / self.questions["near"]},
            "questions": {**self.questions, "all": self.questions.total() - self.questions["near"]},
            "cpu_s_a_page": {name: self.cpu_s[name] / self.pages[name] for name in self.pages},
        }


@dataclass
class Services:
    """The steps with their models. `sis_model` is SIS with the model endpoint that plays the recording."""

    recording: Recording
    ocr: OcrStep = field(default_factory=OcrStep)
    embedding: EmbeddingStep = field(default_factory=EmbeddingStep)
    sis: SisStep = field(default_factory=SisStep)
    #: parameters beside the questions
    payloads: dict[str, dict[str, Any]] = field(default_factory=lambda: {"embedding": {}, "sis": {}})

    def __post_init__(self) -> None:
        self.sis_model = SisStep(model=ModelEndpoint(self.recording.url, NAME))
        # OCR loads its models at its first scan
        for step in (self.embedding, self.sis, self.sis_model):
            step.prepare()


def measure(
    half: str, seed: str, services: Services, say: Callable[[str], None] = lambda _: None, *, scans: bool = True
) -> Figures:
    """Returns the figures of one half. Without `scans` each document has its text layer.

    Calls `say` with the name of each document.
    """
    figures = Figures()
    for place, document in enumerate(make_documents(half, seed)):
        say(f"{half}: {document.name}")
        drawn = draw(document, seed)
        delivered = drawn.pdf
        if scans:
            _read_scans(figures, services, document, drawn, seed)
        if scans and document.number == 2:
            condition = next(each for each in CONDITIONS if each.name == SCANNED[place // 2 % len(SCANNED)])
            delivered = scan(drawn.pdf, condition, f"{seed}:{document.name}:delivered")
        _ask(figures, services, document, drawn, delivered)
    return figures


def _read_scans(figures: Figures, services: Services, document: Document, drawn: Drawn, seed: str) -> None:
    """Reads scans of the document's first page, under `SCANS_OF_A_DOCUMENT` conditions chosen at random."""
    chance = random.Random(f"{seed}:{document.name}:conditions")
    for condition in chance.sample(CONDITIONS, SCANS_OF_A_DOCUMENT):
        with _cpu(figures, "ocr", 1):
            pages = _texts(services, scan(drawn.pdf, condition, f"{seed}:{document.name}", pages=1))
        errors, length = judge.character_errors("\n".join(drawn.pages[0]), pages[0] if pages else "")
        figures.errors[condition.name] += errors
        figures.characters[condition.name] += length


def _texts(services: Services, pdf: bytes) -> list[str]:
    try:
        return [page["text"] for page in json.loads(run_step(services.ocr, pdf).result)["pages"]]
    except StepFailed:
        return []


def _ask(figures: Figures, services: Services, document: Document, drawn: Drawn, delivered: bytes) -> None:
    count = len(drawn.pages)
    prompt_set = [{"id": str(i), "prompt": each.prompt} for i, each in enumerate(document.questions)]
    prompts = {"prompt_set": prompt_set, **services.payloads["sis"]}
    unread: list[dict[str, Any]] = [{"answer": "", "citation": None, "passages": []}] * len(document.questions)
    answers = by_model = unread
    services.recording.play(document.questions)
    try:
        with _cpu(figures, "text layer" if delivered is drawn.pdf else "ocr", count):
            text = run_step(services.ocr, delivered).result
        with _cpu(figures, "embedding", count):
            vectors = run_step(services.embedding, text, services.payloads["embedding"]).result
        with _cpu(figures, "sis, 10 questions", count * len(document.questions) / 10):
            answers = json.loads(run_step(services.sis, vectors, prompts).result)["answers"]
        by_model = json.loads(run_step(services.sis_model, vectors, prompts).result)["answers"]
    except StepFailed:  # each answer counts as wrong
        pass
    for question, answer, model_answer in zip(document.questions, answers, by_model, strict=True):
        page = drawn.block_pages[question.block] if question.block is not None else None
        _judge(figures, document, question, page, answer)
        cited = model_answer["citation"]["page"] if model_answer["citation"] else None
        figures.model_right[question.kind] += judge.is_right(question, model_answer["answer"]) and cited == page


def _judge(figures: Figures, document: Document, question: Question, page: int | None, answer: dict[str, Any]) -> None:
    place = judge.rank(question, page, answer["passages"]) if page is not None else None
    right = judge.is_right(question, answer["answer"])
    figures.questions[question.kind] += 1
    figures.right[question.kind] += right
    figures.top_1[question.kind] += place == 1
    figures.top_3[question.kind] += place is not None and place <= 3
    if not right:
        figures.failures.append(Failure(document.name, question, answer["answer"], place))


@contextmanager
def _cpu(figures: Figures, name: str, pages: float) -> Iterator[None]:
    """Adds the CPU seconds of this process and its children to the figures, by the name of the work."""
    before = _used()
    try:
        yield
    finally:
        figures.cpu_s[name] += _used() - before
        figures.pages[name] += pages


def _used() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _rates(counted: Counter[str], of: Counter[str], without: Collection[str] = ()) -> dict[str, float]:
    names = [name for name in of if name not in without]
    rates = {name: counted[name] / of[name] for name in names}
    return {**rates, "all": sum(counted[name] for name in names) / max(sum(of[name] for name in names), 1)}
