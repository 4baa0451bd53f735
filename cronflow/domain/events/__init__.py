"""Events: what happened in the cluster, in the past tense, one class for each kind.

They are for people and alerts, never for the protocol: no decision depends on an event, and losing one loses no run. A
kind's name is its class in snake case (`leader_elected`), and its fields are plain values. Something that happens to
many runs at once is one event with a count and an example, so that a burst of failures is not a burst of events.
"""

from __future__ import annotations

# A class is declared in one place, so the list of names is that of each module.
from cronflow.domain.events.base import *  # noqa: F403
from cronflow.domain.events.cluster import *  # noqa: F403
from cronflow.domain.events.jobs import *  # noqa: F403
from cronflow.domain.events.recorded import *  # noqa: F403
from cronflow.domain.events.runs import *  # noqa: F403
from cronflow.domain.events.servers import *  # noqa: F403
