"""Settings: where values come from, which source wins, and whether the values agree.

A process starts only with valid and consistent settings; otherwise it reports every problem at once. The order is flag,
`CRONFLOW_*` environment, secrets folder, `cronflow.toml`, default. Only `bootstrap` and `cli` read settings; all other
packages receive plain values. Each command checks the settings that it needs, such as a URL.

Older names still work, except `SCHEDULER_NODE`, which is refused: it said whether a process was the master or a worker,
and here every node can lead. It cannot serve as a node name, because all workers would share it.
"""

from cronflow.config.oidc import OidcConfig, oidc_config
from cronflow.config.settings import Credentials, Settings, credentials, describe
from cronflow.config.sources import load_settings, remove_settings
from cronflow.config.weakness import weaknesses

__all__ = [
    "Credentials",
    "OidcConfig",
    "Settings",
    "credentials",
    "describe",
    "load_settings",
    "oidc_config",
    "remove_settings",
    "weaknesses",
]
