from __future__ import annotations

from cronflow.auth.passwords import Passwords
from cronflow.auth.vault import Vault
from cronflow.ports import Backends, Clock, EventSink, NotificationSender, discard_event
from cronflow.usecases.accounts import ApiKeys, SecretValues, UserAccounts
from cronflow.usecases.alerts import AlertRules
from cronflow.usecases.audit import Auditor
from cronflow.usecases.backfills import BackfillUseCases
from cronflow.usecases.calendars import CalendarUseCases
from cronflow.usecases.catch_up import CatchUpUseCases
from cronflow.usecases.cluster import ClusterUseCases
from cronflow.usecases.explain import Explainer
from cronflow.usecases.job_graph import JobGraphUseCases
from cronflow.usecases.job_health import JobHealthReader
from cronflow.usecases.jobs import JobUseCases
from cronflow.usecases.limits import LimitUseCases
from cronflow.usecases.post_mortem import PostMortem
from cronflow.usecases.run_search import RunSearcher
from cronflow.usecases.runs import RunUseCases
from cronflow.usecases.schedule_load import ScheduleLoadUseCases
from cronflow.usecases.search import Searcher
from cronflow.usecases.sessions import LoginSessions
from cronflow.usecases.spread import SpreadUseCases


class UseCases:
    """Groups the use cases by what they act on. `backends` serves plain reads that need no use case.

    `clock` tells the cluster's time, `machine_clock` that of this machine, by default the same. `vault` seals secrets,
    `notifier` sends test alerts, `admin` is the user name reserved by the settings, and `emit` receives an event for
    every change to a job, a run or the cluster.
    """

    def __init__(
        self,
        backends: Backends,
        clock: Clock,
        emit: EventSink = discard_event,
        *,
        vault: Vault | None = None,
        admin: str = "admin",
        notifier: NotificationSender | None = None,
        namespace: str = "default",
        machine_clock: Clock | None = None,
    ) -> None:
        self.backends = backends
        self.passwords = Passwords()
        self.audit = Auditor(backends.audit, clock, emit)
        self.explain = Explainer(backends, clock)
        self.post_mortem = PostMortem(backends, clock)
        self.search = Searcher(backends)
        self.run_search = RunSearcher(backends)
        self.jobs = JobUseCases(backends, clock, self.audit)
        self.schedule_load = ScheduleLoadUseCases(backends.jobs, clock)
        self.spread = SpreadUseCases(backends.jobs, self.audit, self.jobs, self.schedule_load)
        self.health = JobHealthReader(backends, clock)
        self.graph = JobGraphUseCases(backends.chains, backends.jobs)
        self.runs = RunUseCases(backends, clock, self.audit)
        self.backfills = BackfillUseCases(backends, clock, self.audit)
        self.catch_up = CatchUpUseCases(backends, clock, self.audit)
        self.cluster = ClusterUseCases(backends, clock, self.audit, self.jobs, machine_clock or clock)
        self.users = UserAccounts(backends.users, clock, self.audit, self.passwords, reserved=admin)
        self.keys = ApiKeys(backends.keys, clock, self.audit)
        self.sessions = LoginSessions(backends.sessions, clock, self.audit)
        self.secrets = SecretValues(backends.secrets, clock, self.audit, vault)
        self.calendars = CalendarUseCases(backends, clock, self.audit)
        self.limits = LimitUseCases(backends, clock, self.audit)
        self.alerts = AlertRules(backends, clock, self.audit, notifier, namespace)
