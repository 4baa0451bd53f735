"""Reads CronJob manifests of Kubernetes: several YAML documents, and lists.

CronFlow runs a process on a node and not a pod from an image, so what belongs to pods becomes a note, and a pod that is
more than one process is refused. See `kubernetes_pod` for its container.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from cronflow.domain.errors import InvalidInput, Problem
from cronflow.importers.imported import ImportedFile, ImportNote, ImportRefusal
from cronflow.importers.job_draft import LONG_TIMEOUT, JobDraft, Refused, mapping, refused, text_labels
from cronflow.importers.kubernetes_pod import read_pod
from cronflow.importers.robfig import robfig_schedule

_OVERLAPS = {"Allow": "allow", "Forbid": "forbid", "Replace": "replace"}
_BACKOFF_LIMIT = 6
_RENDER = "render it first: helm template RELEASE CHART | cronflow import kubernetes -"
_SPEC = {
    "schedule",
    "timeZone",
    "suspend",
    "concurrencyPolicy",
    "startingDeadlineSeconds",
    "jobTemplate",
    "successfulJobsHistoryLimit",
    "failedJobsHistoryLimit",
}
_JOB_SPEC = {
    "template",
    "backoffLimit",
    "activeDeadlineSeconds",
    "completions",
    "parallelism",
    "ttlSecondsAfterFinished",
}
_METADATA = {"name", "namespace", "labels", "annotations"}
_OF_THE_SERVER = {"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"}


def read_kubernetes(text: str, source: str, *, tz: str | None = None) -> ImportedFile:
    """The jobs of a manifest. Raises InvalidInput for text that is not YAML, such as a Helm template."""
    try:
        documents = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, RecursionError) as error:
        if "{{" in text:
            raise InvalidInput(Problem(source, "this is a Helm template, not a manifest", _RENDER)) from None
        mark = getattr(error, "problem_mark", None)
        place = source if mark is None else f"{source}:{mark.line + 1}"
        raise InvalidInput(
            Problem(place, f"not YAML: {getattr(error, 'problem', error)}", "correct the file")
        ) from None
    jobs, refusals, others = [], [], Counter[str]()
    for manifest in _manifests(documents):
        kind = manifest.get("kind")
        if kind != "CronJob":
            others[str(kind)] += 1
            continue
        metadata = _mapping(manifest.get("metadata"))
        where = "/".join(str(metadata[key]) for key in ("namespace", "name") if metadata.get(key))
        place = f"CronJob {where}".strip()
        try:
            jobs.append(_job(manifest, metadata, place, tz).imported(str(metadata.get("name") or "job")))
        except Refused as error:
            refusals.append(_refusal(error, place, manifest))
        except InvalidInput as error:
            refusals.append(_refusal(refused(error), place, manifest))
    notes = []
    if others:
        what = ", ".join(f"{count} {kind}" for kind, count in sorted(others.items()))
        notes.append(ImportNote((), f"Only CronJobs are imported. Left out: {what}."))
    if jobs:
        notes.append(ImportNote((), "The nodes run these programs as processes, with ALLOW_SHELL=true."))
    return ImportedFile(f"kubernetes {source}", tuple(jobs), tuple(refusals), notes=tuple(notes))


def _manifests(documents: list[Any]) -> Iterator[Mapping[str, Any]]:
    for document in documents:
        if isinstance(document, list):
            yield from _manifests(document)
        elif isinstance(document, Mapping):
            if str(document.get("kind", "")).endswith("List"):
                kind = str(document["kind"]).removesuffix("List")
                items = document.get("items") or []
                # The items of a CronJobList may leave out their kind.
                yield from _manifests([{"kind": kind, **one} if isinstance(one, Mapping) else one for one in items])
            else:
                yield document


def _job(manifest: Mapping[str, Any], metadata: Mapping[str, Any], place: str, tz: str | None) -> JobDraft:
    spec = _mapping(manifest.get("spec"))
    template = _mapping(spec.get("jobTemplate"))
    job_spec = _mapping(template.get("spec"))
    pod_template = _mapping(job_spec.get("template"))
    # The namespace tells jobs of the same name apart.
    original = f"namespace: {metadata['namespace']}\n" if metadata.get("namespace") else ""
    draft = JobDraft(place, f'{original}schedule: "{spec.get("schedule", "")}"', _text(manifest))
    _schedule(draft, spec, tz)
    read_pod(draft, _mapping(pod_template.get("spec")))
    _runs(draft, spec)
    _attempts(draft, job_spec)
    labels = text_labels(metadata.get("labels"))
    if metadata.get("namespace"):
        labels["namespace"] = str(metadata["namespace"])
    if labels:
        draft.set("labels", labels)
    if spec.get("suspend"):
        draft.set("enabled", False, "Suspended in Kubernetes.")
    _left_out(draft, manifest, metadata, spec, job_spec)
    return draft


def _schedule(draft: JobDraft, spec: Mapping[str, Any], tz: str | None) -> None:
    text, zone = spec.get("schedule"), spec.get("timeZone")
    if not isinstance(text, str) or not text.strip():
        raise Refused("spec.schedule is missing", "add the schedule to the manifest")
    if "{{" in f"{text} {zone} {draft.place}":
        raise Refused("it contains a Helm template", _RENDER)
    schedule, notes = robfig_schedule(text, tz if zone is None else str(zone), "Kubernetes", seconds=False)
    draft.set("schedule", schedule, *notes)
    if zone is None and "cron" in schedule and "TZ=" not in text:
        given = f"{tz}, from --tz" if tz else "UTC unless the job file or TIMEZONE says otherwise"
        draft.note(
            f"Kubernetes uses the zone of its controller manager, which is usually UTC. Here: {given}.", "schedule"
        )


def _runs(draft: JobDraft, spec: Mapping[str, Any]) -> None:
    policy = str(spec.get("concurrencyPolicy") or "Allow")
    if policy not in _OVERLAPS:
        raise Refused(f"concurrencyPolicy is {policy!r}", f"write {', '.join(_OVERLAPS)}")
    default = "" if spec.get("concurrencyPolicy") else ", the default of Kubernetes"
    draft.set("overlap", _OVERLAPS[policy], f"concurrencyPolicy: {policy}{default}.")
    deadline = spec.get("startingDeadlineSeconds")
    if deadline is None:
        draft.set("misfire", {"policy": "fire_once"}, "Kubernetes runs once for all missed times, too.")
    else:
        seconds = _whole(deadline, "startingDeadlineSeconds", low=0)
        late = min(60, max(1, seconds))
        draft.set(
            "misfire",
            {"policy": "fire_once", "late_after": f"{late}s", "grace": f"{seconds}s"},
            f"startingDeadlineSeconds: {seconds}. A run that is later than this is skipped.",
        )


def _attempts(draft: JobDraft, job_spec: Mapping[str, Any]) -> None:
    for key in ("completions", "parallelism"):
        if (job_spec.get(key) or 1) != 1:
            remedy = "write a job with shards, and use CRONFLOW_SHARD_INDEX in its program"
            raise Refused(f"{key} is {job_spec[key]}: several pods share the work of each run", remedy)
    limit = job_spec.get("backoffLimit")
    tries = _BACKOFF_LIMIT if limit is None else _whole(limit, "backoffLimit", low=0)
    given = f"backoffLimit: {tries}" + (", the default of Kubernetes" if limit is None else "")
    if tries:
        retry = {"max": tries, "initial": "10s", "multiplier": 2, "cap": "6m"}
        draft.set("retry", retry, f"{given}. The delays are those of Kubernetes.")
    else:
        draft.no_retries(f"{given}.")
    deadline = job_spec.get("activeDeadlineSeconds")
    if deadline is None:
        draft.set("timeout", LONG_TIMEOUT, "Kubernetes sets no limit. CronFlow needs one: how long may a run take?")
    else:
        seconds = _whole(deadline, "activeDeadlineSeconds", low=1)
        what = f"activeDeadlineSeconds: {seconds}. In Kubernetes it includes the retries; here it is for each attempt."
        draft.set("timeout", f"{seconds}s", what)


def _left_out(
    draft: JobDraft,
    manifest: Mapping[str, Any],
    metadata: Mapping[str, Any],
    spec: Mapping[str, Any],
    job_spec: Mapping[str, Any],
) -> None:
    history = [key for key in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit") if key in spec]
    history += [key for key in ("ttlSecondsAfterFinished",) if key in job_spec]
    draft.left_out("CronFlow keeps runs for the retention period of the cluster, not by", history)
    draft.left_out("Annotations that were left out", map(str, mapping(metadata.get("annotations"), "annotations")))
    unknown = [f"spec.{key}" for key in spec if key not in _SPEC]
    unknown += [f"spec.jobTemplate.spec.{key}" for key in job_spec if key not in _JOB_SPEC]
    unknown += [f"metadata.{key}" for key in metadata if key not in _METADATA | _OF_THE_SERVER]
    unknown += [key for key in manifest if key not in ("apiVersion", "kind", "metadata", "spec", "status")]
    draft.left_out("Keys that were left out", unknown)


def _refusal(error: Refused, place: str, manifest: Mapping[str, Any]) -> ImportRefusal:
    return error.refusal(place, _text(manifest))


def _text(manifest: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(manifest), sort_keys=False, allow_unicode=True)


def _whole(value: object, what: str, low: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise Refused(f"{what} is {value!r}", f"write a whole number, at least {low}")
    return value


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
