"""The kind of answer that a question asks for, such as money, a date or a name, and values of this kind in a
sentence.
"""

from __future__ import annotations

import re

from platform_service.sis.words import stems

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_NUMBER_WORDS = (
    r"(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|fifty|sixty|ninety)"
)
#: digits of a code are not a number
_NUMBER = re.compile(rf"(?<![A-Za-z]-)(?<![A-Za-z\d])\d|\b{_NUMBER_WORDS}\b", re.I)
_MONEY = re.compile(
    r"[$€£]\s?\d|\d[.,]*\s?(?:eur|usd|gbp|chf|euros?|dollars?|pounds?)\b|\b(?:eur|usd|gbp|chf)\s?\d", re.I
)
#: a number with nothing around it, in a text that `value_fit` makes
_BARE_NUMBER = re.compile(r"\Ais \d[\d.,]*\Z")
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
#: a capital within a sentence, or two in a row; months are not names
_NAME = re.compile(rf"(?:(?<![.!?]\s)(?<!^)\b|\b(?=[A-Z][a-z]+ [A-Z][a-z]))(?!(?i:{_MONTH})\b)[A-Z][a-z]+")
_PLACE = re.compile(r"\b(?:in|at|on|to|from|into|behind|under|below|above|near|beside)\s+(?:the|a|an)\b", re.I)
#: a code of at least four characters with a digit; neither a sum nor a year
_CODE = re.compile(r"(?<![\d.,])\b(?!(?:19|20)\d\d\b)(?=[A-Za-z-]{0,40}\d)[A-Za-z\d-]{4,}\b(?![.,]\d)")

#: of `the colour of the bracket`: the colour
_PROPERTY = re.compile(r"\b(?:what|which) (?:is|are|was|were) the (.+?) (?:of|for|in|on|at) ", re.I)
#: factor for a second choice, which loses to an equal first one: a later kind of answer, or two sentences
SECOND_CHOICE_FACTOR = 0.95
#: factor for a text without the number, date or name that the question asks for
WRONG_KIND_FACTOR = 0.55
#: (patterns of questions, patterns of their answers); the first match of the question counts, from narrow to wide
_KINDS = (
    (re.compile(r"\bhow often\b|\bhow frequent|\bwhat interval\b", re.I), (_REPEATED, _DURATION)),
    (re.compile(r"\bhow long\b|\bnotice period\b|\bduration\b", re.I), (_DURATION,)),
    (re.compile(r"\bhow much\b", re.I), (_MONEY, _NUMBER)),
    (
        re.compile(
            r"\bwhat (?:is|are|was) the (?:[\w'\u2019-]+ ){0,3}(?:rent|price|cost|fee|deposit|total|amount|sum)\b", re.I
        ),
        (_MONEY, _BARE_NUMBER),
    ),
    (re.compile(r"\bwhat time\b|\bwhich hours\b|\bopening hours\b", re.I), (_TIME,)),
    (re.compile(r"\b(?:what|which) date\b|\bdue date\b|\bdate of\b", re.I), (_DATE,)),
    (
        re.compile(r"\bwhen\b|\b(?:what|which) day\b|\bby what\b", re.I),
        (_DATE, _TIME, _REPEATED, _DURATION),
    ),
    (
        re.compile(r"\b(?:what|which) (?:is the |was the )?(?:[\w'\u2019-]+ ){0,2}(?:number|code)\b(?! of)", re.I),
        (_CODE,),
    ),
    (
        re.compile(
            r"\bhow (?:many|high|hot|cold|warm|far|fast|quickly|deep|heavy|large|big|wide|tall|old|loud|strong)\b"
            r"|\bwhat (?:\w+ )?(?:number|temperature|pressure|torque|weight|capacity|percentage|voltage)\b",
            re.I,
        ),
        (_NUMBER,),
    ),
    (re.compile(r"\bwhere\b|\b(?:what|which) (?:town|city|address|street)\b", re.I), (_NAME, _PLACE)),
    (re.compile(r"\bwho\b|\bwhom\b|\bwhose\b", re.I), (_NAME,)),
)


def kind_fit(question: str, value: str) -> float | None:
    """Returns a factor up to 1 for the fit of a value to the requested kind, or None if the question requests no
    kind.
    """
    for asks, patterns in _KINDS:
        if asks.search(question):
            fits = [pattern.search(value) is not None for pattern in patterns]
            return 1.0 if fits[0] else SECOND_CHOICE_FACTOR if any(fits) else WRONG_KIND_FACTOR
    return None


def value_fit(question: str, value: str) -> float | None:
    """Returns `kind_fit` of a cell or of a label's value. The first word of the value may be a name, and a number alone
    may be a sum.
    """
    return kind_fit(question, f"is {value}")


def property_fit(question: str, row: str) -> float:
    """Returns 1 if the row has the property that the question names, or if the question names no property. Otherwise,
    returns WRONG_KIND_FACTOR.
    """
    named = _PROPERTY.search(question)
    return 1.0 if named is None or set(stems(named[1])) & set(stems(row)) else WRONG_KIND_FACTOR
