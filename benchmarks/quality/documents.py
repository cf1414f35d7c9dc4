"""Generates documents of six kinds with questions from a seed. The two halves have different facts, labels and tables.

A question that the document does not answer asks for an omitted fact of the same kind, or for a fact of another kind. A
near miss names another thing, or another property, in the words of a fact that the document has.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter
from typing import Any

from benchmarks.quality.values import Values

HALVES = ("development", "held_out")
DEVELOPMENT_SEED = "lucius-quality-1"
KINDS = ("contract", "manual", "minutes", "table", "invoice", "form")
#: documents of each kind in a half
DOCUMENTS = 2
_CONTENT = Path(__file__).parent / "content"


@dataclass(frozen=True)
class Heading:
    text: str


@dataclass(frozen=True)
class Paragraph:
    text: str


@dataclass(frozen=True)
class Table:
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Fields:
    """Labels with values, `across` pairs in a row."""

    pairs: tuple[tuple[str, str], ...]
    across: int = 1


Block = Heading | Paragraph | Table | Fields


@dataclass(frozen=True)
class Question:
    prompt: str
    #: text, two_sentences, table, field, absent or near
    kind: str
    #: texts that a correct answer must all contain
    expect: tuple[str, ...] = ()
    #: texts that a correct answer must not contain
    forbid: tuple[str, ...] = ()
    #: texts of the passage that proves the answer
    evidence: tuple[str, ...] = ()
    #: index of the block with the answer
    block: int | None = None


@dataclass
class Document:
    kind: str
    number: int
    title: str
    #: columns of the page
    columns: int = 1
    blocks: list[Block] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.number}"


def make_documents(half: str, seed: str) -> list[Document]:
    """Returns the documents of a half, deterministic for a seed."""
    return [_make(half, kind, number, seed) for kind in KINDS for number in range(1, DOCUMENTS + 1)]


def _make(half: str, kind: str, number: int, seed: str) -> Document:
    chance = random.Random(f"{seed}:{half}:{kind}:{number}")
    content = _content(kind)
    if kind == "table":
        document = Document(kind, number, "Tables")
    else:
        document = Document(kind, number, chance.choice(content["titles"]))
    maker = _Maker(document, HALVES.index(half), content, chance)
    match kind:
        case "table":
            maker.tables()
        case "invoice":
            maker.invoice()
        case "form":
            maker.form()
        case _:
            document.columns = 2 if number == 2 and kind != "minutes" else 1
            maker.facts()
    if kind != "invoice":
        maker.ask_what_another_kind_has()
    return document


def _content(kind: str) -> dict[str, Any]:
    return tomllib.loads((_CONTENT / f"{kind}.toml").read_text())


def _fill(template: str, values: dict[str, str]) -> str:
    return template.format_map(values)


@dataclass
class _Maker:
    document: Document
    #: number of the half, 0 or 1
    half: int
    content: dict[str, Any]
    chance: random.Random

    def __post_init__(self) -> None:
        self.values = Values(self.chance)

    def facts(self) -> None:
        """Makes nine facts of the half between sentences without content. Three more facts are only in questions."""
        chosen = self._split(self.content["facts"][self.half :: 2], 9)
        for place, fact in enumerate(chosen[0], 1):
            self._ask_near(fact["near"])
            values = self._values(fact["text"])
            words = [*self._fillers(), _fill(fact["text"], values), *self._fillers()]
            self.document.blocks += [Heading(f"{place}. {fact['heading']}"), Paragraph(" ".join(words))]
            self._ask_fact(fact, values)
        for fact in chosen[1][:3]:
            self._ask_absent(self.chance.choice(fact["ask"]))

    def _ask_fact(self, fact: dict[str, Any], values: dict[str, str]) -> None:
        number = self.chance.randrange(len(fact["ask"]))
        answer = fact["answers"][number] if "answers" in fact else fact["answer"]
        expect = tuple(_fill(each, values) for each in ([answer] if isinstance(answer, str) else answer))
        kind = "two_sentences" if fact.get("two") else "text"
        self._ask(fact["ask"][number], kind, expect, evidence=expect)

    def tables(self) -> None:
        """Makes two tables. Questions ask for four cells of each table, and for a row that the table does not have."""
        pool = self.content["tables"][self.half :: 2]
        for number, table in enumerate(self.chance.sample(pool, 2)):
            if number == 0:
                self.document.title = table["title"]
            else:
                self.document.blocks.append(Heading(table["title"]))
            self.document.blocks.append(Paragraph(self._filler()))
            names, left_out = self._split(table["rows"], table.get("keep", 8))
            rows = [(name, *(self._cell(value) for value in table["values"])) for name in names]
            self._table(table["columns"], rows, table["ask"], 4)
            others = dict(zip(table["rows"], table.get("near_rows", []), strict=False))
            self._ask_near_rows(names, others, table["ask"], table["near"])
            self._ask_absent(self.chance.choice(table["ask"]).format(row=left_out[0]))

    def invoice(self) -> None:
        """Makes fields, a table and sums. Besides near misses, three questions have no answer."""
        self.document.blocks.append(Paragraph(f"{self.values.make('company')}, {self.values.make('city')}"))
        shown, left_out = self._split(self.content["fields"], 8)
        pairs = [(each["labels"][self.half], self._cell(each["value"]), each["value"]) for each in shown]
        self._fields(pairs, [each["ask"][self.half] for each in shown], 1, asked=5)
        for each in shown:
            self._ask_near(each["near"][self.half])
        names, missing = self._split(self.content["items"][self.half], 6)
        rows, net = [], 0
        for name in names:
            quantity, cents = int(self.values.make("small")), self.chance.randint(210, 9990)
            net += quantity * cents
            rows.append((name, str(quantity), _money(cents), _money(quantity * cents)))
        asks = self.content["ask_items"][self.half]
        self._table(self.content["columns"], rows, asks, 4)
        others = dict(zip(self.content["items"][self.half], self.content["near_items"][self.half], strict=True))
        self._ask_near_rows(names, others, asks, self.content["near_ask_items"][self.half])
        sums = [net, net // 5, net + net // 5]
        pairs = [
            (each["labels"][self.half], f"EUR {_money(sum_)}", "sum")
            for each, sum_ in zip(self.content["sums"], sums, strict=True)
        ]
        self._fields(pairs, [each["ask"][self.half] for each in self.content["sums"]], 1, asked=2)
        self.document.blocks.append(Paragraph(self._filler()))
        for each in left_out[:2]:
            self._ask_absent(each["ask"][self.half])
        self._ask_absent(self.chance.choice(asks).format(row=missing[0]))

    def form(self) -> None:
        """Makes nine fields. Questions ask for seven of them, and for nine near misses and three other fields that the
        form lacks.
        """
        self.document.blocks.append(Paragraph(self._filler()))
        shown, left_out = self._split(self.content["fields"][self.half :: 2], 9)
        pairs = [(each["label"], self._cell(each["value"]), each["value"]) for each in shown]
        asks = [self.chance.choice(each["ask"]) for each in shown]
        self._fields(pairs, asks, self.document.number, asked=7)
        for each in shown:
            self._ask_near(each["near"])
        for each in left_out[:3]:
            self._ask_absent(self.chance.choice(each["ask"]))

    def ask_what_another_kind_has(self) -> None:
        kind = self.chance.choice([each for each in ("contract", "manual", "minutes") if each != self.document.kind])
        fact = self.chance.choice(_content(kind)["facts"][self.half :: 2])
        self._ask_absent(self.chance.choice(fact["ask"]))

    def _table(self, columns: Sequence[str], rows: list[tuple[str, ...]], asks: list[str], asked: int) -> None:
        self.document.blocks.append(Table(tuple(columns), tuple(rows)))
        cells = [(row, column) for row in rows for column in range(1, len(columns))]
        for row, column in self.chance.sample(cells, asked):
            others = tuple(each[column] for each in rows if each[column] != row[column])
            self._ask(asks[column - 1].format(row=row[0]), "table", (row[column],), others, (row[0], row[column]))

    def _fields(self, fields: list[tuple[str, str, str]], asks: list[str], across: int, asked: int) -> None:
        self.document.blocks.append(Fields(tuple((label, value) for label, value, _ in fields), across))
        for number in self.chance.sample(range(len(fields)), asked):
            label, value, kind = fields[number]
            others = tuple(each[1] for each in fields if each[2] == kind and each[1] != value)
            self._ask(asks[number], "field", (value,), others, (label, value))

    def _ask(
        self,
        prompt: str,
        kind: str,
        expect: tuple[str, ...],
        forbid: tuple[str, ...] = (),
        evidence: tuple[str, ...] = (),
    ) -> None:
        block = len(self.document.blocks) - 1
        self.document.questions.append(Question(prompt, kind, expect, forbid, evidence, block))

    def _ask_absent(self, prompt: str) -> None:
        self.document.questions.append(Question(prompt, "absent"))

    def _ask_near(self, prompt: str) -> None:
        self.document.questions.append(Question(prompt, "near"))

    def _ask_near_rows(self, names: Sequence[str], others: dict[str, str], asks: Sequence[str], column: str) -> None:
        """Asks for a column that the table lacks, and for rows whose names are like those of some of its rows."""
        self._ask_near(column.format(row=names[0]))
        self._ask_near(column.format(row=names[-1]))
        for number, name in enumerate(names[: len(asks)] if others else []):
            self._ask_near(asks[number].format(row=others[name]))

    def _values(self, template: str) -> dict[str, str]:
        slots = [name for _, name, _, _ in Formatter().parse(template) if name]
        return {slot: self.values.make(slot) for slot in slots}

    def _cell(self, template: str) -> str:
        return _fill(template, self._values(template))

    def _filler(self) -> str:
        return str(self.chance.choice(self.content["fillers"]))

    def _fillers(self) -> list[str]:
        return self.chance.sample(self.content["fillers"], self.chance.randint(0, 3))

    def _split(self, pool: Sequence[Any], count: int) -> tuple[list[Any], list[Any]]:
        """Returns `count` members in their order, and the others in any order."""
        kept = sorted(self.chance.sample(range(len(pool)), count))
        others = [each for place, each in enumerate(pool) if place not in kept]
        self.chance.shuffle(others)
        return [pool[place] for place in kept], others


def _money(cents: int) -> str:
    return f"{cents // 100:,}.{cents % 100:02}"
