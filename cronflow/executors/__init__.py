"""Executors run one attempt of one kind of target and return its `AttemptResult`.

An attempt ends within the job's timeout and leaves nothing running, whatever the target does. Where that is impossible
(a thread), the log has an error. An executor only writes log lines; it does not decide about retries or use a backend.
"""
