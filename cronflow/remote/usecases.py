"""What the commands need of a cluster: methods of the service, which `RemoteService` has too.

`cronflow.usecases.service.Service` documents each of them. The one difference: through the API the author of a change
is whoever is logged in, whatever `by` says.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

from cronflow.domain.access import ApiKey, Role, Secret, User
from cronflow.domain.alerts import Alert, AlertRecord, Answer, Notification
from cronflow.domain.cluster import ClusterStatus, Member
from cronflow.domain.events import RecordedEvent
from cronflow.domain.failures import Failure
from cronflow.domain.job import Job, JobRecord, Retry
from cronflow.domain.run import Run
from cronflow.domain.sweep import SweepReport
from cronflow.domain.version import Version
from cronflow.domain.why import Why
from cronflow.ports import LateResult, LogLine, RunQuery
from cronflow.usecases.alerts import Result
from cronflow.usecases.compare import Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """What commands go by of the settings of a cluster: its name, how often nodes report, the retry of jobs that do not
    say, and the version of the API.
    """

    namespace: str
    heartbeat: timedelta
    retry: Retry
    version: str = ""


class UsesUsers(Protocol):
    """Users, for those who manage them."""

    async def find(self, *, after: str = "", limit: int = 500) -> list[User]: ...

    async def create(self, name: str, role: Role, password: str, *, by: str = "") -> User: ...

    async def change(
        self,
        name: str,
        *,
        role: Role | None = None,
        enabled: bool | None = None,
        password: str | None = None,
        by: str = "",
    ) -> User: ...

    async def delete(self, name: str, *, by: str = "") -> None: ...


class UsesKeys(Protocol):
    """API keys, for those who manage them."""

    async def find(self, *, after: str = "", limit: int = 500) -> list[ApiKey]: ...

    async def create(
        self,
        name: str,
        role: Role,
        *,
        jobs: tuple[str, ...] = (),
        expires_at: datetime | None = None,
        by: str = "",
    ) -> tuple[ApiKey, str]: ...

    async def delete(self, name: str, *, by: str = "") -> None: ...


class UsesSecrets(Protocol):
    """Secrets, for those who set them."""

    async def find(self, *, after: str = "", limit: int = 500) -> list[Secret]: ...

    async def set(self, name: str, value: str, *, by: str = "") -> bool: ...

    async def delete(self, name: str, *, by: str = "") -> None: ...


class UsesAlerts(Protocol):
    """Alerts, for those who manage them."""

    async def find(self, *, after: str = "", limit: int = 500) -> list[AlertRecord]: ...

    async def get(self, name: str) -> AlertRecord: ...

    async def notifications(
        self, name: str, *, before: tuple[datetime, str] | None = None, limit: int = 100
    ) -> list[Notification]: ...

    async def define(self, alert: Alert, *, by: str = "") -> tuple[AlertRecord, Result]: ...

    async def delete(self, name: str, *, by: str = "") -> None: ...

    async def test(self, name: str, *, by: str = "") -> tuple[str, Answer]: ...


class UseCases(Protocol):
    """The use-cases of the commands."""

    @property
    def users(self) -> UsesUsers: ...

    @property
    def keys(self) -> UsesKeys: ...

    @property
    def secrets(self) -> UsesSecrets: ...

    @property
    def alerts(self) -> UsesAlerts: ...

    # jobs

    async def jobs(self, *, after: str = "", limit: int = 500) -> list[JobRecord]: ...

    async def job(self, name: str) -> JobRecord: ...

    async def compare(self, jobs: Sequence[Job]) -> list[Comparison]: ...

    async def applied(
        self, jobs: Sequence[Job], *, by: str = "", each: Callable[[], None] = lambda: None
    ) -> list[Comparison]: ...

    async def pause(self, name: str, *, by: str = "") -> JobRecord: ...

    async def resume(self, name: str, *, by: str = "") -> JobRecord: ...

    async def delete(self, name: str, *, by: str = "") -> JobRecord: ...

    async def next_fires(self, name: str, count: int) -> list[datetime]: ...

    async def versions(self, name: str) -> list[Version]: ...

    async def why(self, name: str, at: datetime | None = None, *, exact: bool = True) -> Why: ...

    async def trigger(self, name: str, args: Mapping[str, object] | None = None, *, by: str = "") -> str: ...

    # runs

    async def runs(self, query: RunQuery) -> list[Run]: ...

    async def run(self, run_id: str) -> Run: ...

    async def whole(self, run: Run) -> Run: ...

    async def late(self, run_id: str) -> list[LateResult]: ...

    async def dead_letters(self, job: str | None = None) -> int: ...

    async def replay(
        self,
        run_id: str,
        args: Mapping[str, object] | None = None,
        *,
        by: str = "",
        note: str = "",
        only_dead: bool = False,
    ) -> str: ...

    async def acknowledge(self, run_ids: Sequence[str], *, by: str = "", note: str = "") -> set[str]: ...

    async def report(self, since: datetime, job: str | None = None) -> tuple[Sequence[Failure], bool]: ...

    async def cancel(self, run_id: str, reason: str = "", *, by: str = "") -> Run: ...

    async def cancel_all(self, ids: Collection[str], reason: str = "", *, by: str = "") -> list[Run]: ...

    async def logs(self, run_id: str, *, after: tuple[int, int] = (0, -1), limit: int = 1000) -> list[LogLine]: ...

    # the cluster

    async def members(self) -> list[Member]: ...

    async def node(self, name: str) -> tuple[Member, Collection[str]]: ...

    async def drain(self, name: str, *, by: str = "") -> Member: ...

    async def undrain(self, name: str, *, by: str = "") -> Member | None: ...

    async def status(self) -> ClusterStatus: ...

    async def sweep(self, *, by: str = "") -> str: ...

    async def last_sweep(self) -> SweepReport | None: ...

    async def stepdown(self, *, by: str = "") -> str: ...

    async def events(
        self,
        *,
        kinds: Collection[str] = (),
        since: datetime | None = None,
        limit: int = 100,
    ) -> list[RecordedEvent]: ...


@runtime_checkable
class Remote(Protocol):
    """Use-cases of a cluster whose settings are not those of this process."""

    async def deployed(self) -> Deployed: ...
