"""What a person reads in a notification: one structure, from which e-mails and chat messages are made.

Rule: everything in it is plain text on one line, except the error; each format escapes it for itself. It is made from
the stored body of the notification, and from what a reader can look up when it is sent (`RunDetails`).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

from cronflow.documents.notifications import WATCHER
from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.watch import WatchKind

MOST_OF_TITLE = 120
MOST_OF_SENTENCE = 600
MOST_OF_LINE = 300
Link = tuple[str, str]


class Tone(StrEnum):
    """How serious a notification is."""

    BAD = "bad"
    WARNING = "warning"
    GOOD = "good"
    PLAIN = "plain"


TONES: Mapping[str, Tone] = {
    AlertKind.FAILED: Tone.BAD,
    AlertKind.DEAD_LETTER: Tone.BAD,
    AlertKind.NO_LEADER: Tone.BAD,
    AlertKind.NODE_LOST: Tone.BAD,
    AlertKind.RECOVERED: Tone.GOOD,
    AlertKind.SUCCEEDED: Tone.GOOD,
    AlertKind.HEARTBEAT: Tone.GOOD,
    AlertKind.REPORT: Tone.PLAIN,
}
WORDS: Mapping[str, str] = {
    AlertKind.FAILED: "{job} failed",
    AlertKind.DEAD_LETTER: "{job} is a dead letter",
    AlertKind.RECOVERED: "{job} recovered",
    AlertKind.LATE: "{job} is late",
    AlertKind.NO_LEADER: "The cluster has no leader",
    AlertKind.RUNNING_LONG: "{job} is taking longer than usual",
    AlertKind.RETRIES: "{job} needs many retries",
    AlertKind.DEAD_LETTERS: "Dead letters: {level}",
    AlertKind.RETRY_RATE: "Retries: {level}",
    AlertKind.REPORT: "Weekly report",
    AlertKind.NODE_LOST: "Node {node} was lost",
    AlertKind.LIMIT_WAIT: "{job} waits for a limit",
    AlertKind.SUCCEEDED: "{job} succeeded",
    AlertKind.HEARTBEAT: "The cluster is healthy",
    WATCHER: "{finding}",
}


@dataclass(frozen=True, slots=True)
class RunDetails:
    """What is looked up when a notification is sent. `zone` is that of the job's schedule."""

    log_lines: Sequence[str] = ()
    next_fire: datetime | None = None
    zone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationSummary:
    """`facts` are pairs of a label and a value; `examples` are the notifications in a digest, each a line."""

    title: str
    sentence: str
    tone: Tone
    facts: tuple[tuple[str, str], ...] = ()
    error: str | None = None
    log_lines: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    link: Link | None = None
    origin: str = ""


def summary(body: Mapping[str, Any], details: RunDetails, public_url: str | None) -> NotificationSummary:
    """The summary of a notification's body."""
    run, digest = body.get("run") or {}, body.get("digest")
    kind, job, is_test = body["kind"], body.get("job"), "test" in body
    sample = "Test: " if is_test else ""
    error = run.get("error") if kind != AlertKind.RECOVERED else None
    # The error has a place of its own.
    sentence = body["text"].removesuffix(f": {error}") if error else body["text"]
    return NotificationSummary(
        title=one_line(sample + _title(body, run), MOST_OF_TITLE),
        sentence=one_line(sentence, MOST_OF_SENTENCE),
        tone=_tone(body),
        facts=tuple(_facts(body, run, details)),
        error=error,
        log_lines=tuple(map(log_line, details.log_lines)),
        examples=tuple(_examples(digest, details.zone)) if digest else (),
        commands=() if is_test else tuple(_commands(kind, job, run, digest)),
        link=_link(public_url, kind, None if is_test else job, {} if is_test else run),
        origin=f"alert {body['alert']} of cluster {body['namespace']}",
    )


def one_line(text: str, most: int) -> str:
    """The text without line ends and control characters, which could begin a header or hide what is shown."""
    # A text that is much longer is cut first, because each character is looked at.
    few = text[: 4 * most]
    plain = " ".join(_printable(few).split())
    return plain if len(plain) <= most and len(few) == len(text) else f"{plain[: most - 1]}…"


def log_line(text: str) -> str:
    """A log line with its indentation."""
    plain = _printable(text[: MOST_OF_LINE + 1].expandtabs(4)).rstrip()
    return plain if len(plain) <= MOST_OF_LINE else f"{plain[: MOST_OF_LINE - 1]}…"


def _printable(text: str) -> str:
    return "".join(" " if unicodedata.category(one) in ("Cc", "Cf", "Zl", "Zp") else one for one in text)


def _title(body: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    digest = body.get("digest")
    if digest:
        counts = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in digest["kinds"].items())
        about = next(iter(digest["jobs"])) if len(digest["jobs"]) == 1 else digest["group"]
        return f"{about}: {counts}" if about and about != "quiet" else counts
    kind = body["kind"]
    if kind == AlertKind.DEAD_LETTER and run.get("state") == "lost":
        return f"{body.get('job')} was lost"
    words = WORDS.get(kind, f"{kind.capitalize()} notification")
    title = words.format(
        job=body.get("job") or "a run",
        level=body.get("level", ""),
        node=body.get("node", ""),
        finding=_finding(body),
    )
    error = run.get("error") if kind in (AlertKind.FAILED, AlertKind.DEAD_LETTER) else None
    return f"{title}: {error}" if error else title


def _finding(body: Mapping[str, Any]) -> str:
    """What a watcher found. Without one, nothing."""
    if "finding" not in body:
        return ""
    title = WatchKind(body["finding"]).words
    return f"Over: {title}" if body.get("level") == "ok" else title


def _tone(body: Mapping[str, Any]) -> Tone:
    if digest := body.get("digest"):
        tones = [TONES.get(kind, Tone.WARNING) for kind in digest["kinds"]]
        return min(tones, key=list(Tone).index)
    if (level := body.get("level")) is not None:
        return {"critical": Tone.BAD, "ok": Tone.GOOD}.get(level, Tone.WARNING)
    return TONES.get(body["kind"], Tone.WARNING)


def _facts(body: Mapping[str, Any], run: Mapping[str, Any], details: RunDetails) -> list[tuple[str, str]]:
    facts = [("first" if "digest" in body else "when", time_text(body["at"], details.zone))]
    if run:
        facts.append(("run", run["id"]))
        if run["started_at"] is not None:
            facts.append(("started", time_text(run["started_at"], details.zone)))
        if run["attempt"] and run["max_attempts"] > 1:
            facts.append(("attempt", f"{run['attempt']} of {run['max_attempts']}"))
        if run["node"]:
            facts.append(("node", run["node"].partition("#")[0]))
    for label, key in (("node", "node"), ("limit", "limit")):
        if body.get(key):
            facts.append((label, str(body[key])))
    if body.get("figure") is not None:
        facts.append(("figure", f"{body['figure']:g}, threshold {body['threshold']:g}"))
    if details.next_fire is not None:
        facts.append(("next run", time_text(details.next_fire.isoformat(), details.zone)))
    return facts


def _examples(digest: Mapping[str, Any], zone: str) -> list[str]:
    shown = [
        one_line(f"{_clock(one['at'], zone)} {one['kind'].replace('_', ' ')}: {one['text']}", MOST_OF_LINE)
        for one in digest["examples"]
    ]
    rest = digest["count"] - len(shown)
    return [*shown, f"and {rest:,} more"] if rest > 0 else shown


def _commands(kind: str, job: str | None, run: Mapping[str, Any], digest: object) -> list[str]:
    if digest:
        return ["cronflow runs report"]
    if kind == WATCHER:
        return ["cronflow doctor"]
    if kind in (AlertKind.NO_LEADER, AlertKind.NODE_LOST, AlertKind.HEARTBEAT):
        return ["cronflow status"]
    if kind in (AlertKind.DEAD_LETTERS, AlertKind.RETRY_RATE, AlertKind.REPORT):
        return ["cronflow runs report"]
    if kind in (AlertKind.LATE, AlertKind.LIMIT_WAIT):
        return [f"cronflow jobs why {job}"] if job else []
    return [f"cronflow runs show {run['id']}"] if run else []


def _link(public_url: str | None, kind: str, job: str | None, run: Mapping[str, Any]) -> Link | None:
    if public_url is None:
        return None
    base = public_url.rstrip("/")
    if run:
        return "Open the run", f"{base}/runs/{quote(run['id'], safe='@')}"
    if job:
        return "Open the job", f"{base}/jobs/{quote(job, safe='')}"
    if kind in (AlertKind.NO_LEADER, AlertKind.NODE_LOST):
        return "Open the nodes", f"{base}/nodes"
    return "Open CronFlow", f"{base}/"


def time_text(instant: str, zone: str) -> str:
    """An instant for people: weekday, date and time in a zone, with the zone."""
    local = datetime.fromisoformat(instant).astimezone(ZoneInfo(zone))
    return f"{local:%a %Y-%m-%d %H:%M:%S} {zone}"


def _clock(instant: str, zone: str) -> str:
    return f"{datetime.fromisoformat(instant).astimezone(ZoneInfo(zone)):%H:%M:%S}"
