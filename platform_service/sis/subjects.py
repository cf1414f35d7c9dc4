"""The nouns and names of a question, which are its subjects."""

from __future__ import annotations

import re

from platform_service.sis.words import STOP, plain_words, stem, stems, tokens

#: a noun phrase begins after one of these
_OPENERS = frozenset(
    plain_words(
        """
        the a an this that each every any our your its their which what whose many much no of for in on at by with from
        to under per into after before until between about during within
        """
    )
)
_AUXILIARIES = frozenset(
    plain_words("do does did will would must may can could should shall is are was were has have had be been")
)
#: stems of words that name the kind of an answer or a relation, and no thing
GENERAL = frozenset(
    stems(
        """
        account address amount apply bear begin call carry case charge city company condition date day deal degree duty
        earn exact exactly find firm first follow get give go goods happen held high hold hour interval item keep kept
        kind large last late least leave let level limit live long low make matter maximum minimum minute month most
        name need new number old one own part pay people percentage period person piece place quick range rate receive
        regard result rise run same second see show single size small soon sort stay street take term thing time total
        town type use value want way week well year
        """
    )
)
#: stems of words for a sum of money, which a candidate with a sum need not repeat
SUMS = frozenset(stems("cost fee price sum"))
#: end of a sentence; the capital after it is no name
_END = re.compile(r"[.!?]\s")


def names(question: str) -> list[str]:
    """Returns capitalized words and codes, in lower case, without stop words and first words of sentences.

    Returns no words if all words after the first are capitalized.
    """
    written = tokens(question)
    if all(word[0].isupper() for word in written[1:]):
        return []
    return [
        word
        for token, word, is_first in zip(written, plain_words(question), _first_words(question), strict=True)
        if not is_first
        and word not in STOP
        and (token.istitle() or (token[0].isalpha() and any(map(str.isdigit, token))))
    ]


def subjects(question: str) -> list[str]:
    """Returns nouns, names and adjectives after `how`, in lower case and in order, without GENERAL words."""
    found = []
    in_phrase = verb_follows = False
    length = 0
    words = plain_words(question)
    for place, (token, word, is_first) in enumerate(zip(tokens(question), words, _first_words(question), strict=True)):
        before = words[place - 1] if place else ""
        # in `does the client order ...` a word after the first one of a phrase may be the verb
        verb_follows |= word in _AUXILIARIES and before not in ("what", "who", "which", "where")
        if word in _OPENERS or word in _AUXILIARIES or word in STOP:
            in_phrase, length = word in _OPENERS, 0
            continue
        length += 1
        is_noun = in_phrase and not (verb_follows and length > 1) and not word.endswith("ed")
        is_name = not is_first and token[0].isupper()
        if (is_noun or is_name or before == "how") and stem(word) not in GENERAL:
            found.append(word)
    return found


def _first_words(question: str) -> list[bool]:
    """Returns `True` for each word that is the first of a sentence, else `False`."""
    return [place == 0 for sentence in _END.split(question) for place, _ in enumerate(tokens(sentence))]
