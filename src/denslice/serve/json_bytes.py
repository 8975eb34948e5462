"""Answers as JSON."""

from __future__ import annotations

import json
from typing import Any

import orjson


def json_bytes(answer: Any) -> bytes:
    """Return an answer as JSON in UTF-8. What orjson refuses, such as integers of more than 64 bits, `json` writes."""
    try:
        return orjson.dumps(answer)
    except TypeError:
        return json.dumps(answer, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
