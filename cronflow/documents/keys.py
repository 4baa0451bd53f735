"""Keys that several documents have."""

from __future__ import annotations

from cronflow.documents.tables import Key
from cronflow.documents.values import duration, duration_text, instant, instant_text, optional, text, texts_by_key

LengthForm = str | float
"""`500ms`, `30s`, `5m`, `2h`, `1d`; seconds as a number where no unit divides it."""

TEXT = Key(text)
TEXTS = Key(texts_by_key, dict)
LENGTH = Key(duration, duration_text)
OPTIONAL_TEXT = Key(optional(text))
OPTIONAL_INSTANT = Key(optional(instant), optional(instant_text))
