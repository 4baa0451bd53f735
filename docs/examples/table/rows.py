"""Turns rows of a table into jobs, and runs of a job into the status columns of its row.

`python3 rows.py rows.json` prints a job file. A row keeps its job name, so applying the output again changes only the
jobs whose rows have changed. `python3 rows.py --status job.json runs.json` prints the status columns of one row.
"""

import json
import sys
from pathlib import Path
from typing import Any

Row = dict[str, Any]
DEFAULT_ZONE = "Asia/Ho_Chi_Minh"


def backup_job(row: Row) -> Row:
    """A row with a start hour and an interval in days. After an outage, a backup that is at most 12 hours late still
    runs; an older one is skipped, because the next one is near.
    """
    what = {name: row[name] for name in ("resourceType", "resourceId", "retain")}
    return {
        "name": f"backup-{row['resourceType']}-{row['resourceId']}",
        "description": f"Backup of {row.get('serverName', row['resourceId'])} for {row['customerEmail']}",
        "schedule": {
            "every": f"{row['intervalDays']}d",
            "time": f"{row['startHour']:02}:00",
            "tz": row.get("timezone", DEFAULT_ZONE),
        },
        "run": {"python": "table_handlers:back_up", "args": what},
        "misfire": {"policy": "fire_once", "grace": "12h"},
        "retry": {"max": 3, "initial": "30s", "multiplier": 2},
        "timeout": "2h",
        "labels": {"table": "backups", "location": row.get("location", "")},
        "enabled": row["enabled"],
    }


def task_job(row: Row) -> Row:
    """A row with a cron expression or an instant, and the id of a report, worker or reminder."""
    kind = next(kind for kind in ("report", "worker", "reminder") if row.get(f"{kind}_id") is not None)
    task = {"type": kind, "id": row[f"{kind}_id"], "params": row["params"]}
    return {
        "name": f"{kind}-{row['id']}",
        "description": row["description"],
        "schedule": {"cron": row["schedule"]} if row.get("schedule") else {"at": row["date_time"]},
        "run": {"python": "table_handlers:run_task", "args": task, "process": True},
        "retry": {"max": 3, "initial": "30s", "multiplier": 2},
        "labels": {"table": "schedulers"},
        "enabled": row["status"],
    }


def jobs_of(table: dict[str, list[Row]]) -> list[Row]:
    return [*map(backup_job, table["backup_schedules"]), *map(task_job, table["schedulers"])]


def status_of(job: Row, runs: list[Row]) -> Row:
    """The status columns of a row, from its job and its runs, the newest first."""
    newest = runs[0] if runs else None
    states = {"succeeded": "completed", "retrying": "running", "dispatched": "pending", "running": "running"}
    ended = next((run for run in runs if run["ended_at"]), None)
    failed = next((run for run in runs if run["error"]), None)
    return {
        "status": "idle" if newest is None else states.get(newest["state"], "failed"),
        "lastRunAt": newest and newest["started_at"],
        "nextRunAt": job["next_fire"],
        "completedAt": ended["ended_at"] if ended and ended["state"] == "succeeded" else None,
        "failedAt": failed and failed["ended_at"],
        "lastError": failed and failed["error"],
        "retryCount": max(0, newest["attempt"] - 1) if newest else 0,
        "runningJobId": newest["id"] if newest and not newest["ended_at"] else None,
    }


if __name__ == "__main__":
    documents = [json.loads(Path(name).read_text()) for name in sys.argv[1:] if name != "--status"]
    if "--status" in sys.argv:
        print(json.dumps(status_of(*documents), indent=1))
    else:
        print(json.dumps({"jobs": jobs_of(*documents)}, indent=1))
