"""The handlers of the jobs that `rows.py` makes: backups that keep the newest N, reports, workers and reminders.

Every handler may be called again for the same run, for example after a lost node. So each names its files after the
run, and replaces them at once.
"""

import json
import os
import tarfile
import tempfile
from pathlib import Path

from cronflow import Context, PermanentError

OUT = Path(os.environ.get("TABLE_OUT", Path(tempfile.gettempdir()) / "cronflow-table"))
RESOURCES = ("vps", "cloud-server")


def back_up(ctx: Context, resourceType: str, resourceId: str, retain: int) -> dict[str, object]:  # noqa: N803
    """Archive the resource, and delete all but the newest `retain` archives. Only a finished archive counts."""
    if resourceType not in RESOURCES:
        raise PermanentError(f"{resourceType!r} is not one of {', '.join(RESOURCES)}")
    source, folder = OUT / "servers" / resourceId, OUT / "backups" / f"{resourceType}-{resourceId}"
    if not source.is_dir():
        raise FileNotFoundError(f"{source} cannot be read")
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"{ctx.fire_at:%Y%m%dT%H%M%SZ}.tar.gz"
    draft = archive.with_suffix(f".{ctx.fence}.tmp")
    with tarfile.open(draft, "w:gz") as file:
        file.add(source, arcname=resourceId)
    draft.replace(archive)
    # The names are instants, so their order is that of time.
    older = sorted(folder.glob("*.tar.gz"))[:-retain]
    for old in older:
        old.unlink(missing_ok=True)
    ctx.log.success("archived", file=archive.name, pruned=len(older))
    return {"file": archive.name, "pruned": [old.name for old in older]}


def run_task(ctx: Context, type: str, id: int, params: dict[str, object]) -> object:  # noqa: A002
    """Run a report, worker or reminder by its id."""
    tasks = {"report": report, "worker": work, "reminder": remind}
    if type not in tasks:
        raise PermanentError(f"there are no tasks of type {type}")
    ctx.log.info("started", type=type, id=id, retry=ctx.attempt - 1)
    return tasks[type](ctx, id, params)


def report(ctx: Context, number: int, params: dict[str, object]) -> dict[str, object]:
    """`delivery.instant`: the run has the report as its result. Otherwise it is put into the outbox."""
    text = f"Report {number} for {params.get('region', 'all regions')} at {ctx.fire_at:%Y-%m-%d %H:%M} UTC"
    delivery = params.get("delivery")
    if isinstance(delivery, dict) and delivery.get("instant"):
        return {"report": text}
    return {"file": into_outbox(ctx, {"report": text})}


def work(ctx: Context, number: int, params: dict[str, object]) -> dict[str, object]:
    """A worker changes something; here it only counts what it was given."""
    return {"worker": number, "params": len(params)}


def remind(ctx: Context, number: int, params: dict[str, object]) -> dict[str, object]:
    """Send a reminder. The outbox is sent by something that ignores a file that it has sent already."""
    missing = [name for name in ("to", "text") if not params.get(name)]
    if missing:
        raise PermanentError(f"reminder {number} has no {' and no '.join(missing)}")
    return {"file": into_outbox(ctx, {"to": params["to"], "text": params["text"]})}


def into_outbox(ctx: Context, message: dict[str, object]) -> str:
    """One file for each run, however often it is tried."""
    folder = OUT / "outbox"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{ctx.idempotency_key.replace('@', '-')}.json"
    draft = file.with_suffix(f".{ctx.fence}.tmp")
    draft.write_text(json.dumps(message))
    draft.replace(file)
    return file.name
