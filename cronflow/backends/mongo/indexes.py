"""All indexes. Each serves a frequent query. Partial ones contain only what is open or active, so they stay small."""

from __future__ import annotations

from pymongo import ASCENDING, DESCENDING, IndexModel

from cronflow.domain.catch_up import HELD
from cronflow.domain.job import BACKFILL_PRIORITY, PRIORITIES

ANY_PRIORITY = {"$in": [*reversed(PRIORITIES), BACKFILL_PRIORITY, None]}
"""Matches every job and run; those of older versions have no priority. The indexes `turn` have the priority before a
time. Without a condition on the priority MongoDB would not use the one on the time as a bound: it would read all active
jobs, or all open runs, if fewer are due than the limit. With it, it merges the ranges in the order of that time.
"""

INDEXES = {
    "jobs": [
        # The planner: due jobs by priority. Jobs of 0.6 have none until they are moved, and come last.
        IndexModel(
            [("priority", DESCENDING), ("due_at", ASCENDING)],
            name="turn",
            partialFilterExpression={"active": True},
        ),
        # The planner: the earliest due jobs.
        IndexModel([("due_at", ASCENDING)], name="due", partialFilterExpression={"active": True}),
        # The leader: pauses that end by themselves.
        IndexModel(
            [("pause.until", ASCENDING)], name="pauses", partialFilterExpression={"pause.until": {"$type": "date"}}
        ),
        # The clean-up: tombstones.
        IndexModel(
            [("_id", ASCENDING), ("deleted_at", ASCENDING)],
            name="tombstones",
            partialFilterExpression={"deleted_at": {"$type": "date"}},
        ),
        # Totals: job counts by state, from the index alone.
        IndexModel(
            [("active", ASCENDING), ("paused", ASCENDING), ("deleted_at", ASCENDING), ("_id", ASCENDING)],
            name="standing",
        ),
        # The chain follower: the jobs that follow others.
        IndexModel([("follows", ASCENDING)], name="follows", partialFilterExpression={"follows": {"$exists": True}}),
        # Calendars: the jobs that pin their revisions.
        IndexModel(
            [("calendars", ASCENDING), ("_id", ASCENDING)],
            name="calendars",
            partialFilterExpression={"calendars": {"$exists": True}, "deleted_at": None},
        ),
        # The leader: the fires that a recovery holds, in their order, and their totals from the index alone.
        IndexModel(
            [
                ("waiting.reason", ASCENDING),
                ("priority", DESCENDING),
                ("next_fire", ASCENDING),
                ("_id", ASCENDING),
                ("missed", ASCENDING),
            ],
            name="held",
            partialFilterExpression={"waiting.reason": HELD},
        ),
        # The health of jobs: those that were never planned.
        IndexModel(
            [("_id", ASCENDING), ("pend", ASCENDING)],
            name="unplanned",
            partialFilterExpression={"pend": None, "deleted_at": None},
        ),
        # Lists: the fires that wait for a limit or for a node.
        IndexModel(
            [("waiting.reason", ASCENDING), ("waiting.since", ASCENDING)],
            name="waits",
            partialFilterExpression={"waiting.reason": {"$exists": True}},
        ),
    ],
    "plans": [IndexModel([("at", ASCENDING)], name="age")],
    "runs": [
        # The reconciler: overdue runs, those that wait for a node by priority. Runs of 0.9 have none, and come last.
        IndexModel(
            [
                ("state", ASCENDING),
                ("priority", DESCENDING),
                ("check_at", ASCENDING),
                ("job", ASCENDING),
                ("waiting.reason", ASCENDING),
            ],
            name="turn",
            partialFilterExpression={"open": True},
        ),
        # Named by processes of 0.9 in hints. To be dropped when 0.10 cannot be beside 0.9 any more.
        IndexModel([("check_at", ASCENDING)], name="overdue", partialFilterExpression={"open": True}),
        # The planner: open runs of a job.
        IndexModel([("job", ASCENDING)], name="open", partialFilterExpression={"open": True}),
        # Lists: unresolved dead letters.
        IndexModel(
            [("fire_at", DESCENDING), ("_id", DESCENDING), ("job", ASCENDING)],
            name="dead",
            partialFilterExpression={"dead": True},
        ),
        # Lists: the history of one job.
        IndexModel([("job", ASCENDING), ("fire_at", DESCENDING), ("_id", DESCENDING)], name="history"),
        # Lists: all runs. The clean-up: old runs. Alerts: late runs.
        IndexModel([("fire_at", DESCENDING), ("_id", DESCENDING)], name="newest"),
        # Lists: runs that did not succeed.
        IndexModel(
            [("state", ASCENDING), ("fire_at", DESCENDING), ("_id", DESCENDING), ("job", ASCENDING)],
            name="unusual",
            partialFilterExpression={"ended_at": {"$exists": True}, "state": {"$lt": "succeeded"}},
        ),
        # Lists: the runs of a node. The end of a run does not change it.
        IndexModel(
            [("node", ASCENDING), ("fire_at", DESCENDING), ("_id", DESCENDING)],
            name="node",
            partialFilterExpression={"node": {"$exists": True}},
        ),
        # Lists: the runs of a backfill. Backfills: their counts by state, from the index alone.
        IndexModel(
            [("backfill", ASCENDING), ("fire_at", DESCENDING), ("_id", DESCENDING), ("state", ASCENDING)],
            name="backfill",
            partialFilterExpression={"backfill": {"$exists": True}},
        ),
        # The chain follower: followed runs, those that have ended by the time of their end.
        IndexModel(
            [("state", ASCENDING), ("ended_at", ASCENDING)],
            name="followed",
            partialFilterExpression={"followed": True},
        ),
        # Lists: the runs of a chain.
        IndexModel(
            [("chain.id", ASCENDING), ("fire_at", DESCENDING), ("_id", DESCENDING)],
            name="chain",
            partialFilterExpression={"chain.id": {"$exists": True}},
        ),
        # The splitter: the open parents.
        IndexModel(
            [("created_at", ASCENDING), ("_id", ASCENDING)],
            name="parents",
            partialFilterExpression={"open": True, "split.by": {"$exists": True}},
        ),
        # Lists: the parts of a run. The splitter: their counts by state, from the index alone.
        IndexModel(
            [("parent", ASCENDING), ("fire_at", DESCENDING), ("_id", DESCENDING), ("state", ASCENDING)],
            name="parts",
            partialFilterExpression={"parent": {"$exists": True}},
        ),
        # Placement: the open runs that reserve CPU or memory.
        IndexModel(
            [("node", ASCENDING)],
            name="reserved",
            partialFilterExpression={"open": True, "reserved.cpu": {"$exists": True}},
        ),
        # Alerts: failed and lost runs not yet evaluated.
        IndexModel([("ended_at", ASCENDING)], name="untold", partialFilterExpression={"untold": True}),
        # Alerts: runs that wait for a node.
        IndexModel(
            [("waiting.since", ASCENDING)],
            name="waiting",
            partialFilterExpression={"open": True, "waiting.since": {"$exists": True}},
        ),
    ],
    "backfills": [
        # The leader: those that it works off.
        IndexModel([("created_at", ASCENDING)], name="watched", partialFilterExpression={"watched": True}),
        # Lists: all backfills, and those of a job.
        IndexModel([("created_at", DESCENDING), ("_id", DESCENDING)], name="newest"),
        IndexModel([("job", ASCENDING), ("created_at", DESCENDING), ("_id", DESCENDING)], name="of_job"),
    ],
    "joins": [
        # The chain follower: ends that have waited for too long, and runs that may have to be inserted.
        IndexModel([("due_at", ASCENDING)], name="due", partialFilterExpression={"due_at": {"$exists": True}}),
        # Why a job does not run: the ends that wait for others.
        IndexModel([("job", ASCENDING), ("_id", ASCENDING)], name="waits", partialFilterExpression={"waits": True}),
        # The clean-up: old joins.
        IndexModel([("written_at", ASCENDING)], name="age"),
    ],
    "users": [
        # Logins: the person of the identity provider, who exists once.
        IndexModel(
            [("subject", ASCENDING)],
            name="subject",
            unique=True,
            partialFilterExpression={"subject": {"$gt": ""}},
        )
    ],
    "sessions": [
        # MongoDB deletes expired sessions.
        IndexModel([("expires_at", ASCENDING)], name="expired", expireAfterSeconds=0),
        # Lists: the sessions of a user.
        IndexModel([("user", ASCENDING), ("_id", ASCENDING)], name="of_user"),
    ],
    "events": [
        # Lists: events by kind.
        IndexModel([("kind", ASCENDING), ("_id", ASCENDING)], name="kinds"),
        # Lists: the events about a node.
        IndexModel(
            [("fields.node", ASCENDING), ("_id", ASCENDING), ("kind", ASCENDING)],
            name="of_node",
            partialFilterExpression={"fields.node": {"$exists": True}},
        ),
    ],
    "notices": [
        # The alert sender: the oldest waiting notification of each alert and job, from the index alone.
        IndexModel(
            [
                ("waiting", ASCENDING),
                ("alert", ASCENDING),
                ("job", ASCENDING),
                ("created_at", ASCENDING),
                ("_id", ASCENDING),
                ("due_at", ASCENDING),
            ],
            name="oldest",
            partialFilterExpression={"waiting": True},
        ),
        # The leader: what is held for a digest, and the latest digest.
        IndexModel(
            [("alert", ASCENDING), ("created_at", ASCENDING), ("_id", ASCENDING)],
            name="held",
            partialFilterExpression={"held": True},
        ),
        IndexModel(
            [("alert", ASCENDING), ("kind", ASCENDING), ("created_at", ASCENDING), ("_id", ASCENDING)],
            name="held_kinds",
            partialFilterExpression={"held": True},
        ),
        IndexModel(
            [("alert", ASCENDING), ("number", DESCENDING), ("group", ASCENDING)],
            name="digests",
            partialFilterExpression={"number": {"$gt": 0}},
        ),
        # Lists: the notifications of an alert.
        IndexModel([("alert", ASCENDING), ("created_at", DESCENDING), ("_id", DESCENDING)], name="newest"),
        # MongoDB deletes old notifications.
        IndexModel([("expire_at", ASCENDING)], name="expiry", expireAfterSeconds=0),
    ],
    # The leader: permits that nobody released.
    "limits": [IndexModel([("permits.since", ASCENDING)], name="held")],
    # Each bucket has its own expiry.
    "rollups": [IndexModel([("expire_at", ASCENDING)], name="expiry", expireAfterSeconds=0)],
    "logs": [
        IndexModel([("run", ASCENDING), ("fence", ASCENDING), ("n", ASCENDING)], name="lines"),
        # Searches: all lines, those of one job, and warnings and errors.
        IndexModel([("at", DESCENDING), ("_id", DESCENDING)], name="newest"),
        IndexModel([("job", ASCENDING), ("at", DESCENDING), ("_id", DESCENDING)], name="of_job"),
        IndexModel([("at", DESCENDING), ("_id", DESCENDING)], name="grave", partialFilterExpression={"grave": True}),
    ],
    "late": [IndexModel([("run", ASCENDING)], name="run")],
    "results": [IndexModel([("run", ASCENDING)], name="run")],
}

UNUSED = {"runs": {"ended"}}
"""Indexes of earlier versions. None may be one that such a version names in a hint, because its query would fail, and
no name may be used again for other keys.
"""
