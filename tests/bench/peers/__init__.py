"""Python peers of CronFlow that drain a queue of no-op tasks.

Each `with_*` module sets up one library as its documentation recommends for many short tasks. It offers `enqueue` and
`WORKER`, the arguments of Python that start one worker process. These modules run in environments of their own, which
contain the libraries but not CronFlow; see `tests.bench.peer_drains`.
"""
