"""Reads systemd timers with their services.

The rules: a timer becomes one job with the same instants. What a cluster does not have, such as the boot of a machine,
is refused if the timer needs it and a note otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from cronflow.documents.keys import LengthForm
from cronflow.documents.values import duration_text
from cronflow.domain.errors import InvalidInput
from cronflow.importers.calendar_event import cron_schedules
from cronflow.importers.imported import NO_RETRIES, ImportedFile, ImportedJob, ImportNote, ImportRefusal, job_name
from cronflow.importers.systemd_service import PRESENT, service_keys
from cronflow.importers.unit_file import UnitFile, parse_span

LONGEST_JITTER = timedelta(days=1)
FindUnit = Callable[[str], str | None]
"""The text of a unit with its drop-ins, by its name; None if there is none."""

_AT_BOOT = ("OnBootSec", "OnStartupSec", "OnActiveSec")
_TIMER = ("OnCalendar", "OnUnitActiveSec", "OnUnitInactiveSec", *_AT_BOOT, "Persistent", "RandomizedDelaySec",
          "AccuracySec", "Unit", "FixedRandomDelay")  # fmt: skip
DEFAULTS = {"retry": NO_RETRIES, "overlap": "forbid", "timeout": "1d"}
_DEFAULT_NOTES = {
    "retry": "systemd does not start a failed unit again unless it has Restart=. A run whose node died is started "
    "again on another one; `delivery: at_most_once` prevents that.",
    "timeout": "systemd never stops a unit of Type=oneshot that has no timeout. CronFlow stops it after 1h unless this "
    "says otherwise.",
    "overlap": "systemd does not start a unit that still runs.",
    "tz": "From --tz. systemd used the time zone of its machine for timers that name none.",
}


def read_systemd(timers: list[str], find: FindUnit, source: str, *, tz: str | None = None) -> ImportedFile:
    """The jobs of the timers with these names."""
    jobs, refusals = [], []
    for name in timers:
        text = find(name) or ""
        try:
            jobs.append(_job(name, text, find, tz))
        except InvalidInput as error:
            first = error.problems[0]
            reason = f"{first.place}: {first.what}" if first.place else first.what
            refusals.append(ImportRefusal(name, text, reason, first.remedy or "write the job yourself"))
        except _NotImportedError as refused:
            refusals.append(ImportRefusal(name, text, refused.reason, refused.remedy))
    defaults = {**({} if tz is None else {"tz": tz}), **DEFAULTS} if jobs else {}
    notes = [ImportNote((), text) for text in _file_notes(jobs, tz)]
    notes += [ImportNote(("defaults", key), _DEFAULT_NOTES[key]) for key in defaults]
    return ImportedFile(f"systemd {source}", tuple(jobs), tuple(refusals), defaults, tuple(notes))


class _NotImportedError(Exception):
    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy


def _job(name: str, text: str, find: FindUnit, tz: str | None) -> ImportedJob:
    timer = UnitFile(name, text)
    unit = timer.last("Timer", "Unit") or f"{name.removesuffix('.timer')}.service"
    if not unit.endswith(".service"):
        raise _NotImportedError(f"it starts {unit}, which is not a service", "import the timers or services it starts")
    service_text = find(unit)
    if service_text is None:
        remedy = "put it next to the timer, or give both: systemctl cat NAME.timer NAME.service | … import systemd -"
        raise _NotImportedError(f"there is no {unit} next to it", remedy)
    service = UnitFile(unit, service_text)
    notes: list[ImportNote] = []
    stem = name.removesuffix(".timer")
    document: dict[str, Any] = {}
    if description := service.last("Unit", "Description") or timer.last("Unit", "Description"):
        document["description"] = description
    document["schedule"] = _schedule(timer, tz, notes)
    document |= service_keys(service, stem.partition("@")[2], notes)
    document["misfire"] = _misfire(timer, notes)
    _conditions(timer, service, document, notes)
    left = [*timer.others("Timer", _TIMER), *timer.others("Unit", ("Description", "Documentation", *PRESENT))]
    if left:
        notes.append(ImportNote((), f"No equivalent of the timer, so not imported: {'; '.join(left)}"))
    return ImportedJob(job_name(stem), document, tuple(notes), name, _short(text))


def _short(text: str) -> str:
    """What a reader needs of the timer: its sections without comments."""
    return "\n".join(line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("#", ";")))


def _schedule(timer: UnitFile, tz: str | None, notes: list[ImportNote]) -> dict[str, Any]:
    events = timer.all("Timer", "OnCalendar")
    members = [schedule for event in events for schedule in cron_schedules(event, tz)]
    active, inactive = (timer.last("Timer", f"OnUnit{kind}Sec") for kind in ("Active", "Inactive"))
    at_boot = [f"{key}={value}" for key in _AT_BOOT for value in timer.all("Timer", key)]
    if inactive and members:
        what = "OnUnitInactiveSec counts from the end of a run, which cannot be combined with OnCalendar"
        raise _NotImportedError(what, "make two timers of it, or remove one of the keys")
    if active:
        members.append({"every": _interval(active)})
    if inactive:
        members.append({"every": _interval(inactive), "after_completion": True})
    if not members:
        cause = f"{', '.join(at_boot)} counts from the start of a machine, and a cluster has none"
        raise _NotImportedError(
            cause if at_boot else "it has no OnCalendar", "leave it to systemd, or write a schedule"
        )
    if at_boot:
        text = f"{', '.join(at_boot)} has no equivalent: a cluster does not boot."
        notes.append(ImportNote(("schedule",), text))
    if active:
        text = f"OnUnitActiveSec={active} counts from the last start; every counts from fixed instants."
        notes.append(ImportNote(("schedule",), text))
    schedule = members[0] if len(members) == 1 else {"any": members}
    if (delay := timer.last("Timer", "RandomizedDelaySec")) and "after_completion" not in schedule:
        _add_jitter(schedule, parse_span(delay), delay, notes)
    if accuracy := timer.last("Timer", "AccuracySec"):
        text = f"AccuracySec={accuracy} has no equivalent: runs start at the second."
        notes.append(ImportNote(("schedule",), text))
    return schedule


def _interval(text: str) -> LengthForm:
    return duration_text(timedelta(seconds=max(1, round(parse_span(text).total_seconds()))))


def _add_jitter(schedule: dict[str, Any], delay: timedelta, text: str, notes: list[ImportNote]) -> None:
    whole = min(timedelta(seconds=round(delay.total_seconds())), LONGEST_JITTER)
    if not whole:
        return
    schedule["jitter"] = duration_text(whole)
    longer = " A day is the most." if whole < delay else ""
    notes.append(ImportNote(("schedule", "jitter"), f"From RandomizedDelaySec={text}.{longer}"))


def _misfire(timer: UnitFile, notes: list[ImportNote]) -> str:
    if timer.flag("Timer", "Persistent"):
        notes.append(ImportNote(("misfire",), "From Persistent=true: one run makes up for all that were missed."))
        return "fire_once"
    notes.append(ImportNote(("misfire",), "Without Persistent=true, systemd drops what it missed."))
    return "skip"


def _conditions(timer: UnitFile, service: UnitFile, document: dict[str, Any], notes: list[ImportNote]) -> None:
    """The first file that must exist becomes `when_present`; other conditions are notes."""
    for unit in (service, timer):
        for key in PRESENT:
            for value in unit.all("Unit", key):
                path = value.strip()
                if path.startswith("/") and "when_present" not in document["run"]:
                    document["run"]["when_present"] = path
                    notes.append(ImportNote(("run", "when_present"), f"From {key} of {unit.name}."))
                else:
                    notes.append(ImportNote(("run",), f"{key}={value} of {unit.name} is not translated."))


def _file_notes(jobs: list[ImportedJob], tz: str | None) -> list[str]:
    if not jobs:
        return []
    texts = []
    if tz is None:
        texts.append(
            "systemd used the time zone of its machine for timers that name none. These schedules use that of the "
            "cluster (the setting TIMEZONE). To name it, import with --tz ZONE; `timedatectl` shows it."
        )
    if any("dst" in str(job.document["schedule"]) for job in jobs):
        texts.append("dst: systemd skips times that do not exist when the clocks go forward; CronFlow would catch up.")
    users = sorted({job.document["run"]["run_as"] for job in jobs})
    allowed = f"Nodes need ALLOW_SHELL=true and ALLOW_RUN_AS={','.join(users)}, and must run as root for run_as."
    texts.append(f"{allowed} A unit without User= runs as root.")
    texts.append("On every machine, disable the timers that the cluster now runs: systemctl disable --now NAME.timer")
    return texts
