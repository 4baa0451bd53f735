"""The rules of CronFlow, without any I/O.

Nothing here reads a clock, opens a socket or awaits: `now` is an argument, and every decision is a function of
values. The words below are used with these meanings everywhere, in the code, the documents and the interface.

Job          What to run and when.
Schedule     `Cron | Every | Once`.
Fire         An instant at which a job falls due; always a whole UTC second.
Run          One fire of a job, or a range of missed fires (`covers`). Its id is `<job>@<fire>`.
Attempt      One try of a run.
Outcome      How an attempt ended.
Node         A process of the cluster. Its incarnation is one start of it; `<node>#<incarnation>` is its node id.
Role         What a node does: elector, planner, settler, reconciler, caretaker, heartbeat, worker, alarms, courier.
Cursor       `next_fire` of a job: the first instant that nothing covers yet.
Pend         The run that the last move of a job's cursor created.
Plan note    The write-ahead document of a batch of cursor moves.
Version      A job from one edit to the next. Each instant that falls due belongs to one.
Placement    Which node was chosen for a run, and what stood against the others.
Dead letter  A run that failed or was lost, until somebody replays or acknowledges it: its resolution.
Replay       A run that repeats one that has ended, `<id>~r1`.
Term         One tenure of a leader.
Fence        A run's fencing token.
Lease        A time-boxed right.
Doorbell     A pub/sub message that says "look"; it never carries the only copy of work.
System job   A job that is CronFlow itself; its name begins with `_sys:`.
Sweep        The daily audit of all records against the invariants. A finding is something that must not be.
Clean-up     The daily deletion of what has outlived its retention. A tombstone is what stays of a deleted job.
Event        Something that happened, in the past tense.
User         Somebody who logs in with a password. A session is what one login began.
API key      What a script logs in with.
Principal    Who asks: a user or an API key, with a role.
Secret       A sealed value that jobs name and only an attempt sees.
Audit log    Who changed what, and when: one audit entry for each change. (The sweep's audit is another thing.)
Alert        A rule that says of what somebody is told, and where. A webhook is where.
Notice       What an alert has to tell once, until its receiver has taken it. The outbox is where notices wait.
Roll-up      Counts of what ended within a minute, an hour or a day. Its bucket is the document that has them.
Tick         The state of the cluster as the live stream tells it, once a second.
Metric       A figure that a process tells of itself to who monitors it. Its series are its values by label.
"""
