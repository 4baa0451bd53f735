"""`H` in cron expressions: a value that a stable hash of the job's name chooses, so that jobs spread by themselves.

`H` is any value of its field, `H(0-29)` one of a range, `H/15` every 15th from a chosen first one, `H(9-17)/2` both. In
the day-of-month field `H` is 1 to 28, which every month has, and in the day-of-week field Sunday to Saturday once. Each
field has its own choice. The same name has the same choices in every version and on every node. As in Jenkins.
"""

from __future__ import annotations

import re
from hashlib import blake2b

from cronflow.domain.errors import InvalidInput, Problem

_TERM = re.compile(r"H(?:\((?P<low>[0-9]{1,4})-(?P<high>[0-9]{1,4})\))?(?:/(?P<step>[0-9]{1,4}))?", re.IGNORECASE)
_USES = re.compile(r"(?:^|[\s,])H(?=[\s,(/]|$)", re.IGNORECASE)
_RANGES = {
    "second": (0, 59),
    "minute": (0, 59),
    "hour": (0, 23),
    "day-of-month": (1, 28),
    "month": (1, 12),
    "day-of-week": (0, 6),
}
_LIMITS = {**_RANGES, "day-of-month": (1, 31), "day-of-week": (0, 7)}


def uses_hash(expr: str) -> bool:
    """Whether a term of the expression is an `H`."""
    return ("H" in expr or "h" in expr) and _USES.search(expr) is not None


def resolve_hash(expr: str, name: str) -> str:
    """The expression with the values that this name chooses in place of each `H`.

    Raises InvalidInput for a range or step that the field does not have. Other errors are left to the parser.
    """
    if not uses_hash(expr):
        return expr
    fields = expr.split()
    if len(fields) not in (5, 6):
        return expr
    names = list(_RANGES)[6 - len(fields) :]
    return " ".join(
        ",".join(_resolve(term, field, name, expr) for term in value.split(","))
        for field, value in zip(names, fields, strict=True)
    )


def _resolve(term: str, field: str, name: str, expr: str) -> str:
    found = _TERM.fullmatch(term)
    if found is None:
        return term
    low, high = _RANGES[field]
    if found["low"] is not None:
        lowest, highest = _LIMITS[field]
        low, high = int(found["low"]), int(found["high"])
        if not lowest <= low <= high <= highest:
            raise _refused(
                term, field, expr, f"write a range from {lowest} to {highest}, such as H({lowest}-{highest})"
            )
    choice = _hash(name, field)
    if found["step"] is None:
        return str(low + choice % (high - low + 1))
    step = int(found["step"])
    if not 1 <= step <= high - low + 1:
        raise _refused(term, field, expr, f"write a step from 1 to {high - low + 1}")
    first = low + choice % step
    # A plain list: a range that ends before the first step would not be one.
    return ",".join(str(value) for value in range(first, high + 1, step))


def _refused(term: str, field: str, expr: str, remedy: str) -> InvalidInput:
    return InvalidInput(Problem("", f"{term!r} is not allowed in the {field} field of cron {expr!r}", remedy))


def _hash(name: str, field: str) -> int:
    return int.from_bytes(blake2b(f"{name}\0{field}".encode(), digest_size=8).digest())


def jitter_share(name: str, instant_s: int, limit: int) -> int:
    """A whole number from 0 to `limit`, chosen by a stable hash of the name and the instant in Unix seconds."""
    if limit <= 0:
        return 0
    return int.from_bytes(blake2b(f"{name}\0jitter\0{instant_s}".encode(), digest_size=8).digest()) % (limit + 1)
