"""The rules of CronFlow, without any I/O.

Nothing here reads a clock, opens a socket or awaits: `now` is an argument, and every decision is a function of values.
The words below have these meanings in the code, the documentation and the interface.

Job              What to run and when.
Schedule         `Cron | Every | Once`.
Calendar         A named set of days and windows of time that schedules share. Each change of it makes a new revision.
Exclusion        Why a fire is skipped: a calendar or window of its schedule.
Pin              A revision of a calendar to which a job is bound, `name@rev`.
Fire             An instant at which a job is due; always a whole UTC second.
Run              One fire of a job, or a range of missed fires (`covers`). Its id is `<job>@<fire>`.
Attempt          One try of a run.
Outcome          How an attempt ended.
Node             A process of the cluster. An incarnation is one start of it, with the id `<node>#<incarnation>`.
Handler process  A process of a node that runs Python functions, if its setting PROCESSES is above 1.
Role             A periodic task of a node, for example the elector, planner, plan recovery, reconciler or worker.
Leader           The node that plans and places runs. The elector role elects it through Redis.
Worker           The part of a node that takes runs from the node's queue and executes them.
Cursor           `next_fire` of a job: the first instant that no run covers yet.
Pending run      The run that the last move of a job's cursor created, stored in the job until its run is inserted.
Plan intent      The write-ahead document of a batch of cursor moves.
Plan recovery    The role that finishes plan intents whose author died.
Reconciler       The role that dispatches retries and handles runs that no worker has reported in time.
Version          A job between two edits. Each due instant belongs to exactly one version.
Placement        The node that was chosen for a run, and why each of the others was not.
Breaker          The circuit breaker of a job. While it is open, failing runs are not retried; a probe may close it.
Placement rule   What a job says about its nodes beyond labels: prefer, spread, apart_from or resources.
Reservation      The CPU and memory that a run takes from the capacity of its node while it is dispatched or running.
Occupancy        The open runs and reservations on the nodes, as the placement rules see them.
Dead letter      A run that failed or was lost, until it is replayed or acknowledged: its resolution.
Replay           A run that repeats one that has ended, `<id>~r1`.
Upstream         A job that another one follows, and which ends of its runs count.
Follower         A job that names others in `after`. The role that creates its runs is the chain follower.
Chain            A run and the runs that follow it, directly or through others. Its id is the id of that first run.
Join             The ends that a job which follows several jobs has, while it waits for the others.
Backfill         Runs of a job for instants that have passed, requested together; each is `<job>@<fire>~b1`.
Backfiller       The role that inserts the runs of backfills.
Term             The time in which one leader leads, with a number that only grows.
Fence            A run's fencing token.
Schedule load    How many runs start in each minute of the next seven days, computed from the schedules.
Spread plan      Other minutes for jobs that start together, with the schedule load before and after.
Job lock         A lock in Redis that keeps runs of one job from overlapping.
Lease            A right that expires unless it is renewed.
Limit            How many runs execute at the same time, or start per period, for a name or a key that jobs share.
Permit           The right of an attempt to run under a limit: an entry with its run and fence in the limit's document.
Signal           A pub/sub message that wakes a role. It never carries the only copy of work.
Spool            Results on a node's disk while MongoDB is unavailable.
System job       A job that runs a part of CronFlow; its name begins with `_sys:`.
Ledger           What became of each due instant, derived without the planner's code. Each has one entry with a verdict.
Sweep            The daily audit of all records against the invariants. A violated invariant is a finding.
Clean-up         The daily deletion of data after its retention period. A tombstone is what is left of a deleted job.
Event            Something that happened, named in the past tense.
User             A person who logs in with a password. A login begins a session.
API key          The credential of a script.
Principal        The author of a request: a user or an API key, with a role.
Owner            Whose a job is, by its label `owner`. A change that prunes deletes only jobs of one owner.
Secret           A sealed value that jobs refer to by name and only attempts can read.
Audit log        Who changed what, and when: one audit entry for each change.
Alert            A rule that sends notifications to a webhook.
Crossing         A change of the level of a figure that an alert watches: ok, warn or critical.
Notification     One message of an alert, sent until its receiver accepts it. It waits in the outbox.
Roll-up          Counts of the runs that ended within a minute, an hour or a day. A bucket is one document of counts.
Tick             The state of the cluster in the live stream, once a second.
Watcher          A process outside of the cluster that looks for the runs of what was due, and reports findings.
Metric           A figure that a process exports to Prometheus. A series is one metric with one set of labels.
"""
