"""Names that need no declaration: Bicep's own functions, decorators and types, from microsoft/bicep_names.json."""

from __future__ import annotations

import json
from collections.abc import Mapping

from infra.checks.kinds import ANY, BOOLEAN, DATA, INTEGER, STRING, Items, Kind

_NAMES = json.loads((DATA.parent / "bicep_names.json").read_text(encoding="utf-8"))
_KINDS: Mapping[str, Kind] = {
    "any": ANY,
    "bool": BOOLEAN,
    "int": INTEGER,
    "string": STRING,
    "int[]": (Items(INTEGER),),
    "string[]": (Items(STRING),),
}

#: what each function returns; the two namespaces stand for functions too
FUNCTIONS: Mapping[str, Kind] = {name: _KINDS[kind] for name, kind in _NAMES["functions"].items()}
#: only between `@` and a declaration: the kinds that each may stand on; none: any
DECORATORS: Mapping[str, frozenset[str]] = {name: frozenset(kinds) for name, kinds in _NAMES["decorators"].items()}
TYPES = frozenset(_NAMES["types"])
