"""Enqueues tasks with a library, or becomes one of its workers.

python -m tests.bench.peers.run with_saq enqueue 20000
python -m tests.bench.peers.run with_saq work
"""

from __future__ import annotations

import importlib
import os
import sys


def main() -> None:
    name, action, *rest = sys.argv[1:]
    peer = importlib.import_module(f"tests.bench.peers.{name}")
    if action == "enqueue":
        peer.enqueue(int(rest[0]))
    else:
        os.execv(sys.executable, [sys.executable, *peer.WORKER])


if __name__ == "__main__":
    main()
