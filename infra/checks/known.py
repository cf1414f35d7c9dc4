"""Names that Azure and Bicep define, from known.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

#: functions, decorators, types; `resources`: type to API versions; `roles`: name to GUID; `host_json`: documented keys
KNOWN: dict[str, Any] = json.loads((Path(__file__).parent / "known.json").read_text())
