"""Handler processes: a node with PROCESSES above 1 runs Python functions in processes of its own.

The node keeps leading, planning and talking to the servers, and user code never shares an interpreter lock with it.
`HandlerPool` is the executor for Python targets; each `HandlerProcess` is one process as the node sees it, and `child`
is the program that it runs. Both ends exchange `frames` of `messages` over a socket pair.
"""
