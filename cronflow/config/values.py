"""Readers for the values of settings, one per kind.

A reader takes text (environment, secrets) or a TOML or Python value, and returns the value or raises InvalidInput
without a place. No error and no listing shows a password. Readers do not compare settings with each other.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import time, timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

from cronflow.documents.values import got, too_large
from cronflow.domain.access import check_password
from cronflow.domain.alert_receivers import check_address
from cronflow.domain.backfill import BackfillRate, parse_rate
from cronflow.domain.durations import format_duration, parse_duration
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import check_name
from cronflow.domain.limits import check_user, parse_size
from cronflow.domain.schedule.zones import find_zone
from cronflow.domain.single_sign_on import GroupRole, parse_group_role

Reader = Callable[[object], Any]

SHORTEST_SIGNING_SECRET = 32
SEALING_KEY_BYTES = 32
LONGEST_LINE = 200

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\],\s]+)(:[0-9]{1,5})?")
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?")
_SECRET_OPTION = re.compile(
    r"([?&][^=&\s]*(?:password|secret|token|authMechanismProperties)[^=&\s]*=)[^&\s\"']*", re.IGNORECASE
)


def duration(least: str, most: str | None = None) -> Reader:
    """A duration; plain numbers are seconds."""

    def read(value: object) -> timedelta:
        if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
            value = float(value)
        if isinstance(value, bool) or not isinstance(value, str | int | float | timedelta) or too_large(value):
            raise InvalidInput(f"expected a duration such as 30s, got {got(value)}")
        length = parse_duration(value)
        if length < parse_duration(least):
            raise InvalidInput(f"{format_duration(length)} is too short; it must be at least {least}")
        if most is not None and length > parse_duration(most):
            raise InvalidInput(f"{format_duration(length)} is too long; it must be at most {most}")
        return length

    return read


def time_of_day(value: object) -> time:
    """`HH:MM`, UTC."""
    if isinstance(value, str) and re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]", value.strip()):
        return time.fromisoformat(value.strip())
    if isinstance(value, time) and not value.second and not value.microsecond:
        return value.replace(tzinfo=None)
    raise InvalidInput(Problem("", f"expected a time of day, got {got(value)}", 'write it like "03:00", in UTC'))


def zone(value: object) -> str:
    """The IANA name of a time zone."""
    if not isinstance(value, str):
        raise InvalidInput(Problem("", f"expected the name of a time zone, got {got(value)}", "such as Europe/Berlin"))
    return find_zone(value.strip()).key


def number(kind: type[int] | type[float], low: int, high: int) -> Reader:
    """A number within these bounds, or its text."""
    expected = f"expected a {'whole ' if kind is int else ''}number from {low} to {high}"

    def read(value: object) -> float:
        try:
            found = kind(value) if isinstance(value, str | kind | int) and not isinstance(value, bool) else None
        except (ValueError, OverflowError):
            found = None
        if found is None or not low <= found <= high:
            raise InvalidInput(f"{expected}, got {got(value)}")
        return found

    return read


def rate(value: object) -> BackfillRate:
    """Runs per unit of time, written as 100/s."""
    return value if isinstance(value, BackfillRate) else parse_rate(str(value))


def size(value: object) -> int:
    """Bytes, written as 512MiB."""
    return parse_size(str(value))


def flag(value: object) -> bool:
    """A boolean; text may be true, false, yes, no, on, off, 1 or 0."""
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in _FLAGS:
        raise InvalidInput(f"expected true or false, got {got(value)}")
    return _FLAGS[word]


_FLAGS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


def words(value: object) -> tuple[str, ...]:
    """A list, or comma-separated words."""
    found = value.split(",") if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not all(isinstance(word, str) for word in found):
        raise InvalidInput(f"expected words separated by commas, got {got(value)}")
    return tuple(word.strip() for word in found if word.strip())


def modules(value: object) -> tuple[str, ...]:
    """Names of Python modules."""
    found = words(value)
    for module in found:
        if not all(part.isidentifier() for part in module.split(".")):
            raise InvalidInput(Problem("", f"{module!r} is not a module", "write names such as billing.jobs"))
    return found


def apps(value: object) -> tuple[str, ...]:
    """Addresses of Apps."""
    found = words(value)
    for address in found:
        module, _, name = address.partition(":")
        if not name.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
            raise InvalidInput(f"{address!r} is not the address of an App; write package.module:app")
    return found


def labels(value: object) -> tuple[str, ...]:
    """Pairs `KEY=VALUE`, or a table of TOML, with each key once."""
    if isinstance(value, dict):
        value = [f"{key}={of}" for key, of in value.items()]
    found, problems, keys = words(value), [], set[str]()
    for pair in found:
        key, equals, _ = pair.partition("=")
        if not equals or not key:
            problems.append(Problem("", f"{pair!r} is not KEY=VALUE", "write region=eu"))
        elif key in keys:
            problems.append(Problem("", f"{key} is given twice", "remove one of the two"))
        keys.add(key)
    if problems:
        raise InvalidInput(problems)
    return found


def users(value: object) -> tuple[str, ...]:
    """Names of users of the system."""
    return tuple(check_user(name) for name in words(value))


def hosts(value: object) -> tuple[str, ...]:
    """Names with `*` wildcards, addresses and networks."""
    found = words(value)
    for host in found:
        if not re.fullmatch(r"[\w.:*?\[\]-]+(/[0-9]{1,3})?", host):
            remedy = "write names such as *.example.com, or networks such as 10.0.0.0/8"
            raise InvalidInput(Problem("", f"{host!r} is not a host", remedy))
    return found


def networks(value: object) -> tuple[str, ...]:
    """Addresses and networks."""
    found = words(value)
    for network in found:
        try:
            ip_network(network)
        except ValueError as error:
            raise InvalidInput(Problem("", f"{error}", "write addresses, or networks such as 10.0.0.0/8")) from None
    return found


def origins(value: object) -> tuple[str, ...]:
    """Origins as browsers send them. There is no wildcard; every allowed origin is listed."""
    found = words(value)
    for origin in found:
        if not re.fullmatch(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?", origin):
            raise InvalidInput(Problem("", f"{origin!r} is not an origin", "write such as https://ops.example.com"))
    return found


def line(value: object) -> str:
    """A short line of text."""
    text = value.strip() if isinstance(value, str) else ""
    if not 0 < len(text) <= LONGEST_LINE or not text.isprintable():
        raise InvalidInput(f"expected a line of at most {LONGEST_LINE} characters, got {got(value)}")
    return text


def issuer(value: object) -> str:
    """The address of an identity provider: https, or plain http on this machine. It is kept as it is written, because
    it is compared with the one in tokens.
    """
    text = url("https", "http", example="https://id.example.com")(value)
    host = _HOST.match(text.partition("://")[2])
    is_local = host is not None and host[1] in ("127.0.0.1", "localhost", "[::1]")
    if text.startswith("http://") and not is_local:
        remedy = "use https://; plain http lets others on the network log in as anyone"
        raise InvalidInput(Problem("", "the identity provider must use https", remedy))
    if "?" in text or "#" in text or "@" in text:
        raise InvalidInput(Problem("", "an issuer has no user, query or fragment", "write it like the provider does"))
    return str(text)


def scopes(value: object) -> tuple[str, ...]:
    """Scopes of OAuth, separated by commas or spaces."""
    found = words(value.replace(" ", ",") if isinstance(value, str) else value)
    for scope in found:
        if not re.fullmatch(r"[\x21\x23-\x5b\x5d-\x7e]{1,200}", scope):
            raise InvalidInput(Problem("", f"{scope[:50]!r} is not a scope", "such as openid profile email groups"))
    return found


def group_roles(value: object) -> tuple[GroupRole, ...]:
    """Groups with their roles. All problems are reported."""
    found: list[GroupRole] = []
    problems: list[Problem] = []
    for text in words(value):
        try:
            found.append(parse_group_role(text))
        except InvalidInput as error:
            problems += error.problems
    if problems:
        raise InvalidInput(problems)
    return tuple(found)


def secret_line(value: object) -> str:
    """The secret of a client. Errors never show it."""
    text = _unshown(value)
    if not re.fullmatch(r"[\x20-\x7e]{1,1000}", text):
        raise InvalidInput(Problem("", "is not a client secret", "copy it from the identity provider"))
    return text


def password(value: object) -> str:
    """A password. Errors of this reader and of the following ones never show the value."""
    return check_password(_unshown(value))


def mail_password(value: object) -> str:
    """A password that another system has chosen."""
    text = _unshown(value)
    if not text or len(text) > 1000 or not text.isprintable():
        raise InvalidInput(Problem("", "is empty, too long or not printable", "give it as the mail server expects it"))
    return text


def mail_address(value: object) -> str:
    """One e-mail address."""
    if not isinstance(value, str):
        raise InvalidInput(f"expected an e-mail address, got {got(value)}")
    check_address(value.strip())
    return value.strip()


def password_hash(value: object) -> str:
    """An argon2id password hash."""
    text = _unshown(value)
    if not re.fullmatch(r"\$argon2id\$v=19\$m=\d+,t=\d+,p=\d+\$[\w+/]+\$[\w+/]+", text):
        remedy = "it begins with $argon2id$; a shell or a compose file may have eaten the $"
        raise InvalidInput(Problem("", "not a hash of argon2id", remedy))
    return text


def key(value: object) -> str:
    """An API key."""
    text = _unshown(value)
    if not re.fullmatch(r"[\x21-\x7e]{1,500}", text):
        raise InvalidInput(Problem("", "is not an API key", "give it as cronflow keys create printed it"))
    return text


def signing_secret(value: object) -> str:
    """The secret that signs access tokens."""
    text = _unshown(value)
    if len(text.encode()) < SHORTEST_SIGNING_SECRET:
        what = f"has {len(text.encode())} bytes; it must have at least {SHORTEST_SIGNING_SECRET}"
        raise InvalidInput(Problem("", what, "make one with `openssl rand -base64 48`"))
    return text


def sealing_keys(value: object) -> tuple[bytes, ...]:
    """Comma-separated keys of 32 bytes in base64; the first seals, all open."""
    texts = words(_unshown(value) if isinstance(value, str) else value)
    try:
        found = tuple(base64.b64decode(text, validate=True) for text in texts)
    except (binascii.Error, ValueError):
        found = ()
    if not found or any(len(key) != SEALING_KEY_BYTES for key in found):
        what = f"expected keys of {SEALING_KEY_BYTES} bytes in base64"
        raise InvalidInput(Problem("", what, "make one with `openssl rand -base64 32`"))
    return found


def _unshown(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput("expected text")
    return value.strip()


def folder(value: object) -> Path:
    """A path on this machine, absolute or below the home directory."""
    text = str(value).strip() if isinstance(value, str | Path) else ""
    if not text or "\0" in text:
        raise InvalidInput(f"expected a path, got {got(value)}")
    path = Path(text)
    try:
        path = path.expanduser()
    except RuntimeError:
        raise InvalidInput(Problem("", f"{text} has no home directory here", "write an absolute path")) from None
    if not path.is_absolute():
        # A relative path would change with the working directory, and the node would not find its files.
        raise InvalidInput(Problem("", f"{text} is not an absolute path", "write one that begins with / or ~"))
    return path


def name(kind: str) -> Reader:
    """A valid CronFlow name; `kind` appears in errors."""

    def read(value: object) -> str:
        if not isinstance(value, str):
            raise InvalidInput(f"expected a {kind} name, got {got(value)}")
        return check_name(value.strip(), kind)

    return read


def level(value: object) -> str:
    """A log level."""
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in ("debug", "info", "warn", "error"):
        raise InvalidInput(f"expected debug, info, warn or error, got {got(value)}")
    return word


def log_format(value: object) -> str:
    """A log format."""
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in ("text", "json"):
        raise InvalidInput(f"expected text or json, got {got(value)}")
    return word


def address(value: object) -> str:
    """An address to listen on."""
    text = value.strip() if isinstance(value, str) else ""
    try:
        ip_address(text)
    except ValueError:
        remedy = "write 127.0.0.1 for this machine alone, 0.0.0.0 for all that reach it"
        raise InvalidInput(Problem("", f"expected an IP address, got {got(value)}", remedy)) from None
    return text


_OF_SEVERAL_HOSTS = {"mongodb", "redis+sentinel", "redis+cluster"}


def url(*schemes: str, example: str) -> Reader:
    """A URL. Errors never show the value, which may contain a password."""
    *most, last = (f"{scheme}://" for scheme in schemes)
    expected = f"expected an address that begins with {', '.join(most)} or {last}"

    def read(value: object) -> str:
        text = value.strip() if isinstance(value, str) else ""
        scheme, mark, rest = text.partition("://")
        if not mark or scheme not in schemes:
            shown = f"{scheme}://" if mark else "something else" if text else got(value)
            raise InvalidInput(Problem("", f"{expected}, got {shown}", f"write it like {example}"))
        authority = re.split("[/?#]", rest, maxsplit=1)[0]
        if scheme == "unix":
            sound = rest.startswith("/")
        else:
            host = authority.rpartition("@")[2]
            several = host.split(",") if scheme in _OF_SEVERAL_HOSTS else [host]
            sound = all(_HOST.fullmatch(one) for one in several)
        if not sound:
            what = f"the {scheme}:// address has no host, or one that cannot be read"
            remedy = f"write it like {example}; in a password, write / as %2F, ? as %3F, # as %23 and @ as %40"
            raise InvalidInput(Problem("", what, remedy))
        return text

    return read


_PASSWORD = re.compile(r"([a-z][a-z0-9+.-]*://[^\s/:@\"']*):[^\s/\"']+@", re.IGNORECASE)


def masked_within(text: str) -> str:
    """The text with the passwords of its URLs masked."""
    return _SECRET_OPTION.sub(r"\1***", _PASSWORD.sub(r"\1:***@", text)) if "://" in text else text


def masked(url: str) -> str:
    """The URL with its password masked: `redis://user:***@host`."""
    scheme, mark, rest = url.partition("://")
    user, at, place = rest.rpartition("@")
    name, colon, _ = user.partition(":")
    return _SECRET_OPTION.sub(r"\1***", f"{scheme}{mark}{name}{colon and ':***'}{at}{place}")
