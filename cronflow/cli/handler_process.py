"""The program of a handler process. A node starts it; it is no command.

    python -m cronflow.cli.handler_process <descriptor of the socket to the node> <pid of the node>

It ends with its node, even if a handler blocks it. It ignores the signals that stop a node, because its node drains it.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys

from cronflow.cli.process_log import LogFormat, configure
from cronflow.executors.pool import child
from cronflow.executors.pool.messages import HandlerOptions
from cronflow.operating_system import die_with_parent, hide_process

COMMAND = (sys.executable, "-m", __name__)


def main(descriptor: int, node: int) -> None:
    hide_process()
    die_with_parent(node)
    for number in (signal.SIGINT, signal.SIGTERM):
        # Not SIG_IGN, which the commands of handlers would inherit.
        signal.signal(number, lambda *_: None)
    with socket.socket(fileno=descriptor) as connection:
        # Commands of handlers must not have it.
        connection.set_inheritable(False)
        options = child.options_from(connection)
        _configure_log(options)
        apps = child.load_apps(connection, options)
        if apps is not None:
            asyncio.run(child.serve(connection, options, apps))


def _configure_log(options: HandlerOptions) -> None:
    form = LogFormat(options.log_format) if options.log_format is not None else None
    if form is None:
        form = LogFormat.TEXT if sys.stderr.isatty() else LogFormat.JSON
    configure(options.log_level, form, about={"role": "handlers", "node": options.node})


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
