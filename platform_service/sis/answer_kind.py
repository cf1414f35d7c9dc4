"""The kind of answer that a question asks for (money, a date, a name ...), and whether a sentence has one."""

from __future__ import annotations

import re

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_NUMBER_WORDS = (
    r"(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|fifty|sixty|ninety)"
)
_NUMBER = re.compile(rf"\d|\b{_NUMBER_WORDS}\b", re.I)
_MONEY = re.compile(
    r"[$€£]\s?\d|\d[\d.,]*\s?(?:eur|usd|gbp|chf|euros?|dollars?|pounds?)\b|\b(?:eur|usd|gbp|chf)\s?\d", re.I
)
_DATE = re.compile(
    rf"\b\d{{1,2}}\s+{_MONTH}|\b{_MONTH}\s+\d|\b\d{{4}}-\d\d-\d\d|\b\d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}", re.I
)
_TIME = re.compile(r"\b\d{1,2}[:.]\d\d\b|\b\d{1,2}\s?[ap]\.?m\b|\bnoon\b|\bmidnight\b", re.I)
_DURATION = re.compile(
    rf"(?:\d|\b{_NUMBER_WORDS}\b)[\w\s()-]{{0,16}}\b(?:second|minute|hour|day|week|month|year|shift)s?\b", re.I
)
_REPEATED = re.compile(
    r"\b(?:every|each|daily|weekly|monthly|quarterly|yearly|annual(?:ly)?|hourly|once|twice|per|after \w+ hours)\b",
    re.I,
)
_NAME = re.compile(r"(?<![.!?]\s)(?<!^)\b[A-Z][a-z]+|\b[A-Z][a-z]+ [A-Z][a-z]+")

#: (patterns of questions, patterns of their answers); the first match of the question counts, from narrow to wide
_KINDS = (
    (re.compile(r"\bhow often\b|\bhow frequent|\bwhat interval\b", re.I), (_REPEATED, _DURATION)),
    (re.compile(r"\bhow long\b|\bnotice period\b|\bduration\b", re.I), (_DURATION,)),
    (
        re.compile(
            r"\bhow much\b|\bwhat (?:is|are|was) the (?:\w+ ){0,3}(?:rent|price|cost|fee|deposit|total|amount)\b", re.I
        ),
        (_MONEY,),
    ),
    (re.compile(r"\bwhat time\b|\bwhich hours\b|\bopening hours\b", re.I), (_TIME,)),
    (
        re.compile(r"\bwhen\b|\bwhat date\b|\bwhich day\b|\bwhat day\b|\bby what\b|\bdue date\b|\bdate of\b", re.I),
        (_DATE, _TIME, _REPEATED, _DURATION),
    ),
    (
        re.compile(
            r"\bhow many\b|\bhow (?:high|hot|cold|far|fast|deep|heavy)\b|\bwhat (?:\w+ )?(?:number|temperature|pressure"
            r"|torque|weight|capacity|percentage|voltage)\b",
            re.I,
        ),
        (_NUMBER,),
    ),
    (re.compile(r"\bwho\b|\bwhom\b|\bwhose\b", re.I), (_NAME,)),
)


def holds_answer(question: str, text: str) -> bool | None:
    """Whether the text has the kind of answer that the question asks for; None where the question asks for no kind."""
    for asks, patterns in _KINDS:
        if asks.search(question):
            return any(pattern.search(text) for pattern in patterns)
    return None
