"""Settings: where the values come from, which of them counts, and whether they fit together.

The rule it protects: a process starts with settings that are all understood and agree with each other, or it does not
start and names every problem at once. The order is flag, `CRONFLOW_*` environment, secrets folder, `cronflow.toml`,
default. Only `wiring` and `cli` read this; everything else receives plain values. Which settings a command needs, such
as a URL, is the command's business.

The older names of the source documents still work. `SCHEDULER_NODE` is understood and has no effect: it said whether a
process was the master or a worker, and here every node can lead. As a node's name it would be the same for all
workers, and a live duplicate is refused.
"""

from cronflow.config.credentials import Credentials, credentials
from cronflow.config.settings import Settings, describe
from cronflow.config.sources import load_settings

__all__ = ["Credentials", "Settings", "credentials", "describe", "load_settings"]
