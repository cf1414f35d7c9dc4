"""Checks that texts for users follow the rules of docs/contributing/words.md (`make lint`).

No text has a refused phrase, a label such as "None: unlimited", a sentence of more than 25 words or a paragraph of more
than 4 sentences. No docstring begins with a question word. The docstring of a function begins with a verb.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

from scripts.shown_texts import ROOT, function_docstrings, shown_texts

#: words in a sentence, at most; code counts as none, a link as its text
WORDS = 25
#: sentences in a paragraph, an item of a list or a cell of a table, at most
SENTENCES = 4
_OPENINGS = '^ *"""((How|What|Where|Who)(ever)?|Whether|Which|Whose|Why|Nobody|Somebody) '
_VERB = re.compile(r"(?!(?:This|Its|Always|Class|Process|Address|Status)\b)[A-Z][\w-]*s\b")
_LABEL = re.compile(r"(?:^|[.;(|] )(?:None|[Nn]ull|[Ee]mpty|[Uu]nset|[Ww]ithout it|-?[01]): ")
_CODE = re.compile(r"`[^`\n]*`")
_TAG = re.compile(r"<[^>]*>")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
#: an end of a paragraph, of an item, of a cell; a prefix of Bicep's descriptions
_PARAGRAPH = re.compile(r"\n\s*(?=[-*#\n\d])|\||^(?:Required|Optional|Conditional)\. ")
_SENTENCE = re.compile(r"(?<=[.?!])\**\s+(?=[A-Z`\"(*])")
#: an end of a sentence, or a colon before a capital or code
_PART = re.compile(rf"{_SENTENCE.pattern}|:\s+(?=[A-Z`])")
_WORD = re.compile(r"[A-Za-z][\w'./-]*")


def refused_phrases(words: str) -> re.Pattern[str]:
    """Returns a pattern of the refused phrases in the text of words.md. A `*` stands for the rest of a word."""
    table = words.partition("| refused phrase |")[2].partition("\n\n")[0]
    phrases = re.findall(r"^\| ([a-z*' /]+?) \|", table, re.MULTILINE)
    each = [re.escape(part).replace(r"\*", r"\w*") for phrase in phrases for part in phrase.split(" / ")]
    return re.compile(rf"\b({'|'.join(each)})\b", re.IGNORECASE)


def findings(text: str, refused: re.Pattern[str]) -> Iterator[str]:
    """Yields the refused phrases, the labels, the long paragraphs and the long sentences of a text in Markdown."""
    plain = _LINK.sub(r"\1", _TAG.sub("", _CODE.sub("`", text)))
    yield from (repr(phrase[0]) for phrase in refused.finditer(plain))
    yield from (f"label {label[0].strip(' .;(|')!r}: make it a sentence" for label in _LABEL.finditer(plain))
    for paragraph in _PARAGRAPH.split(plain):
        sentences = [sentence for sentence in _SENTENCE.split(paragraph.strip()) if sentence]
        if len(sentences) > SENTENCES:
            yield f"{len(sentences)} sentences, at most {SENTENCES}: {' '.join(sentences[0].split()[:6])} ..."
        for part in _PART.split(paragraph):
            words = _WORD.findall(part)
            if len(words) > WORDS:
                yield f"{len(words)} words, at most {WORDS}: {' '.join(words[:6])} ..."


def begins_with_verb(text: str) -> bool:
    """Returns True if the text begins with a verb in the third person, as far as its form shows."""
    return _VERB.match(text) is not None


def main() -> int:
    """Prints the findings. Returns 1 if any finding exists, else 0."""
    refused = refused_phrases((ROOT / "docs" / "contributing" / "words.md").read_text("utf-8"))
    wrong = [f"{name}:{line}: {each}" for name, line, text in shown_texts() for each in findings(text, refused)]
    wrong += [
        f"{name}:{line}: begin with a verb such as 'Returns': {text.splitlines()[0]}"
        for name, line, text in function_docstrings()
        if not begins_with_verb(text)
    ]
    openings = ["git", "grep", "-nE", _OPENINGS, "--", "*.py"]
    wrong += subprocess.run(openings, cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
