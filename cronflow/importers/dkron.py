"""Reads jobs of Dkron as its API prints them: one job, a list, or a line per job.

Dkron runs a job on every node that has its tags, unless a tag has a count. Retries, overlaps and jobs that follow
others have a counterpart; what Dkron computed itself (its counters and states) is of no interest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from cronflow.domain.errors import InvalidInput, Problem
from cronflow.importers.dkron_executors import read_executor
from cronflow.importers.imported import ImportedFile, ImportedJob, ImportRefusal, job_name
from cronflow.importers.job_draft import JobDraft, Refused, refused, text_labels
from cronflow.importers.robfig import robfig_schedule

_STATE = {
    "id",
    "name",
    "success_count",
    "error_count",
    "last_success",
    "last_error",
    "dependent_jobs",
    "status",
    "next",
}
_READ = {
    "displayname",
    "timezone",
    "schedule",
    "owner",
    "owner_email",
    "disabled",
    "tags",
    "metadata",
    "retries",
    "parent_job",
    "processors",
    "concurrency",
    "executor",
    "executor_config",
    "ephemeral",
    "starts_at",
    "expires_at",
}


def read_dkron(text: str, source: str, *, tz: str | None = None) -> ImportedFile:
    """The jobs of an export. Raises InvalidInput for text that is not JSON."""
    exported = [one for one in _documents(text, source) if isinstance(one, Mapping)]
    # A job that another one follows is looked up by its name in Dkron.
    names = {str(one.get("name", "")): job_name(str(one.get("name") or "job")) for one in exported}
    jobs: list[ImportedJob] = []
    refusals: list[ImportRefusal] = []
    for one in exported:
        place = f"job {one.get('name', '')}".strip()
        try:
            jobs.append(_job(one, place, tz, names).imported(str(one.get("name") or "job")))
        except Refused as error:
            refusals.append(error.refusal(place, _text(one)))
        except InvalidInput as error:
            refusals.append(refused(error).refusal(place, _text(one)))
    return ImportedFile(f"dkron {source}", *_with_parents(jobs, refusals, set(names.values())))


def _with_parents(
    jobs: list[ImportedJob], refusals: list[ImportRefusal], exported: set[str]
) -> tuple[tuple[ImportedJob, ...], tuple[ImportRefusal, ...]]:
    """Without the jobs that follow a refused one: they could not be applied."""
    while True:
        imported = {job.name for job in jobs}
        missing = exported - imported
        orphan = next(
            (job for job in jobs if any(one["job"] in missing for one in job.document.get("after", ()))), None
        )
        if orphan is None:
            return tuple(jobs), tuple(refusals)
        jobs.remove(orphan)
        parent = orphan.document["after"][0]["job"]
        remedy = f"import {parent} first"
        refusals.append(
            ImportRefusal(orphan.place, orphan.whole, f"it follows {parent}, which is not imported", remedy)
        )


def _documents(text: str, source: str) -> list[Any]:
    try:
        found = json.loads(text)
    except RecursionError:
        raise InvalidInput(Problem(source, "its values are nested too deeply", "correct the file")) from None
    except json.JSONDecodeError as error:
        try:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        except json.JSONDecodeError:
            place = f"{source}:{error.lineno}"
            remedy = "export the jobs with: curl http://HOST:8080/v1/jobs"
            raise InvalidInput(Problem(place, f"not JSON: {error.msg}", remedy)) from None
    return found if isinstance(found, list) else [found]


def _job(job: Mapping[str, Any], place: str, tz: str | None, names: Mapping[str, str]) -> JobDraft:
    when = "parent_job" if job.get("parent_job") else "schedule"
    draft = JobDraft(place, f'{when}: "{job.get(when) or ""}"', _text(job))
    title = str(job.get("displayname") or "")
    if title:
        draft.set("description", title)
    parent = str(job.get("parent_job") or "")
    if parent:
        what = "Dkron runs it after each success of this job, whatever its own schedule is."
        draft.set("after", [{"job": names.get(parent, job_name(parent)), "on": "succeeded"}], what)
        if parent not in names:
            draft.note(f"The job {parent} is not in this file.", "after")
    else:
        _schedule(draft, job, tz)
    read_executor(draft, str(job.get("executor") or ""), _texts(job.get("executor_config")))
    _placement(draft, _texts(job.get("tags")))
    policy = str(job.get("concurrency") or "allow")
    if policy not in ("allow", "forbid"):
        raise Refused(f"concurrency is {policy!r}", "write allow or forbid")
    draft.set("overlap", policy, f"concurrency: {policy}.")
    if "schedule" in draft.document:
        draft.set("misfire", {"policy": "skip"}, "Dkron does not run what it missed.")
    retries = job.get("retries") or 0
    if retries:
        what = f"retries: {retries}. Dkron's delays depend on how long the run took; these are similar."
        draft.set("retry", {"max": retries, "initial": "5s", "multiplier": 2}, what)
    else:
        draft.no_retries("retries: 0.")
    labels = text_labels(job.get("metadata"))
    labels |= {key: str(job[key]) for key in ("owner", "owner_email") if job.get(key)}
    if labels:
        draft.set("labels", labels, "The metadata and the owner. Alerts of CronFlow go to channels, not to owners.")
    if job.get("disabled"):
        draft.set("enabled", False, "Disabled in Dkron.")
    for name, config in _mapping(job.get("processors")).items():
        given = f" ({json.dumps(config)})" if config else ""
        draft.note(f"The processor {name}{given} is left out: the output is in the log of the run.")
    draft.left_out("Keys that were left out", [key for key in job if key not in _STATE | _READ])
    return draft


def _schedule(draft: JobDraft, job: Mapping[str, Any], tz: str | None) -> None:
    text = str(job.get("schedule") or "").strip()
    if not text:
        raise Refused("it has neither a schedule nor a parent_job", "add a schedule such as @manually")
    if text == "@manually":
        draft.note("It has no schedule: run it with `cronflow jobs run`.")
        return
    if text.startswith("@at "):
        draft.set("schedule", {"at": text.removeprefix("@at ").strip()})
        return
    zone = str(job.get("timezone") or "")
    described = text.startswith("@")
    if described and zone:
        draft.note(f"Dkron ignores the timezone {zone} of {text}, and uses the zone of its server.", "schedule")
        zone = ""
    spec = _with_hash(draft, text, str(job.get("name", "")))
    spec = "0 * * * * *" if spec == "@minutely" else spec
    schedule, notes = robfig_schedule(spec, zone or tz, "Dkron", seconds=True)
    draft.set("schedule", schedule, *notes)
    if not zone and "cron" in schedule and "TZ=" not in text:
        given = f"{tz}, from --tz" if tz else "UTC unless the job file or TIMEZONE says otherwise"
        draft.note(f"Dkron uses the local zone of its server. Here: {given}.", "schedule")
    _bounds(draft, schedule, job)


def _bounds(draft: JobDraft, schedule: dict[str, Any], job: Mapping[str, Any]) -> None:
    for ours, key in (("start", "starts_at"), ("end", "expires_at")):
        value = job.get(key)
        if not value:
            continue
        try:
            schedule[ours] = datetime.fromisoformat(str(value)).replace(microsecond=0).isoformat()
        except ValueError:
            raise Refused(f"{key} is {value!r}", "write a time such as 2027-01-01T00:00:00Z") from None
    if job.get("ephemeral"):
        draft.note("Dkron deletes it after its first success. CronFlow keeps it; max_runs: 1 ends it.", "schedule")
        schedule["max_runs"] = 1


def _with_hash(draft: JobDraft, text: str, name: str) -> str:
    """The schedule with the values that Dkron computes from the job's name in place of `~`."""
    if "~" not in text or text.startswith("@"):
        return text
    total, place, found = sum(map(ord, name)), 0, []
    for part in text.split(" "):
        if part.startswith(("TZ=", "CRON_TZ=")):
            found.append(part)
            continue
        value = {2: total % 24, 3: total % 28 + 1, 4: total % 12 + 1, 5: total % 7}.get(place, total % 60)
        found.append(part.replace("~", str(value)))
        place += 1
    draft.note(f"{text} of this name. CronFlow writes H, and chooses another value.", "schedule")
    return " ".join(found)


def _placement(draft: JobDraft, tags: Mapping[str, str]) -> None:
    require, counts = {}, []
    for key, value in tags.items():
        plain, colon, count = value.partition(":")
        if key == "region":
            draft.note(f"The tag region={value} is left out: a cluster of CronFlow has no regions.")
            continue
        require[key] = plain
        counts += [count] if colon else []
    if require:
        draft.set("require", require, "The tags. Start nodes with these labels: cronflow node --label KEY=VALUE")
    wrong = [count for count in counts if not count.isdigit() or int(count) < 1]
    if wrong:
        raise Refused(f"a tag has the count {wrong[0]!r}", "write a number, such as web:1")
    nodes = min(map(int, counts), default=None)
    if nodes is None:
        which = "with these tags " if require else ""
        draft.set("run_on", "every_node", f"Dkron runs it on every node {which}at once, because no tag has a count.")
    elif nodes > 1:
        remedy = "let it run on every node with a label that these nodes have, or on one node"
        raise Refused(f"it runs on {nodes} nodes at once", remedy)


def _text(job: Mapping[str, Any]) -> str:
    return json.dumps(job, indent=2, ensure_ascii=False)


def _texts(value: object) -> dict[str, str]:
    return {str(key): str(one) for key, one in _mapping(value).items()}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
