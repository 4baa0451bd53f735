"""What the stores can hold of what user code prints, raises and returns.

No store has a code for half of a surrogate pair, which Python puts in place of a byte that is not UTF-8, for example in
file names. MongoDB holds no result with an integer of more than 64 bits, a key that contains NUL, or hundreds of
levels. The text of its JSON has none of these limits.
"""

from __future__ import annotations

MOST_LEVELS = 100
"""MongoDB accepts 180, of which a run's document needs a few."""


def storable_text(text: str) -> str:
    """The text with a question mark for each half of a surrogate pair."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def fits_document(value: object, levels: int = MOST_LEVELS) -> bool:
    """Whether a document of MongoDB can contain this JSON value."""
    match value:
        case bool() | None | str() | float():
            return True
        case int():
            return -(2**63) <= value < 2**63
        case dict():
            return levels > 0 and all(
                "\0" not in key and fits_document(item, levels - 1) for key, item in value.items()
            )
        case list():
            return levels > 0 and all(fits_document(item, levels - 1) for item in value)
    return False
