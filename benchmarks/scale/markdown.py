"""Tables in Markdown."""

from __future__ import annotations


def table(head: list[str], body: list[list[str]]) -> str:
    rule = "|---" + "|--:" * (len(head) - 1) + "|"
    return "\n".join([f"| {' | '.join(head)} |", rule, *(f"| {' | '.join(row)} |" for row in body)])
