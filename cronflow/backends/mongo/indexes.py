"""The indexes, one table. Each serves a query that some role sends all the time; the partial ones stay as small as what
is open or active.
"""

from __future__ import annotations

from pymongo import ASCENDING, DESCENDING, IndexModel

INDEXES = {
    "jobs": [
        # The planner: what is due.
        IndexModel([("due_at", ASCENDING)], name="due", partialFilterExpression={"active": True}),
        # The clean-up: tombstones.
        IndexModel(
            [("_id", ASCENDING), ("deleted_at", ASCENDING)],
            name="tombstones",
            partialFilterExpression={"deleted_at": {"$type": "date"}},
        ),
        # People: how many there are in which state, from the index alone.
        IndexModel(
            [("active", ASCENDING), ("paused", ASCENDING), ("deleted_at", ASCENDING), ("_id", ASCENDING)],
            name="standing",
        ),
    ],
    "plans": [IndexModel([("at", ASCENDING)], name="age")],
    "runs": [
        # The reconciler: what nobody has looked after.
        IndexModel([("check_at", ASCENDING)], name="overdue", partialFilterExpression={"open": True}),
        # The planner: is another run of the job open?
        IndexModel([("job", ASCENDING)], name="open", partialFilterExpression={"open": True}),
        # People: dead letters that nobody has settled.
        IndexModel(
            [("fire_at", DESCENDING), ("_id", DESCENDING), ("job", ASCENDING)],
            name="dead",
            partialFilterExpression={"dead": True},
        ),
        # People: the history of one job, and of all.
        IndexModel([("job", ASCENDING), ("fire_at", DESCENDING), ("_id", DESCENDING)], name="history"),
        IndexModel([("fire_at", DESCENDING), ("_id", DESCENDING)], name="newest"),
        # People: what did not go well. A run that succeeds never enters it.
        IndexModel(
            [("state", ASCENDING), ("fire_at", DESCENDING), ("_id", DESCENDING), ("job", ASCENDING)],
            name="unusual",
            partialFilterExpression={"ended_at": {"$exists": True}, "state": {"$lt": "succeeded"}},
        ),
        # People: what a node ran. The end of a run does not touch it.
        IndexModel(
            [("node", ASCENDING), ("fire_at", DESCENDING), ("_id", DESCENDING)],
            name="node",
            partialFilterExpression={"node": {"$exists": True}},
        ),
        # Alerts: what died and was not asked about.
        IndexModel([("ended_at", ASCENDING)], name="untold", partialFilterExpression={"untold": True}),
        # The clean-up: what ended long ago.
        IndexModel(
            [("ended_at", ASCENDING), ("_id", ASCENDING)],
            name="ended",
            partialFilterExpression={"ended_at": {"$exists": True}},
        ),
    ],
    # MongoDB takes away what has expired.
    "sessions": [IndexModel([("expires_at", ASCENDING)], name="expired", expireAfterSeconds=0)],
    # People: what happened, of some kinds.
    "events": [IndexModel([("kind", ASCENDING), ("_id", ASCENDING)], name="kinds")],
    "notices": [
        # Whoever sends: what is due.
        IndexModel([("due_at", ASCENDING)], name="due", partialFilterExpression={"waiting": True}),
        # People: the newest of an alert.
        IndexModel([("alert", ASCENDING), ("created_at", DESCENDING), ("_id", DESCENDING)], name="newest"),
        # MongoDB takes away what ended long ago.
        IndexModel([("expire_at", ASCENDING)], name="expiry", expireAfterSeconds=0),
    ],
    # Each bucket says itself when it is to go.
    "rollups": [IndexModel([("expire_at", ASCENDING)], name="expiry", expireAfterSeconds=0)],
    "logs": [
        IndexModel([("run", ASCENDING), ("fence", ASCENDING), ("n", ASCENDING)], name="lines"),
        # People: the newest of all, of one job, and those that warn.
        IndexModel([("at", DESCENDING), ("_id", DESCENDING)], name="newest"),
        IndexModel([("job", ASCENDING), ("at", DESCENDING), ("_id", DESCENDING)], name="of_job"),
        IndexModel([("at", DESCENDING), ("_id", DESCENDING)], name="grave", partialFilterExpression={"grave": True}),
    ],
    "late": [IndexModel([("run", ASCENDING)], name="run")],
    "results": [IndexModel([("run", ASCENDING)], name="run")],
}
