"""`cronflow import kubernetes`, `dkron`, `celery` and `apscheduler`: schedulers with a format of their own.

They belong to the group of `imports`.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from cronflow.cli.commands.imports import imports as imports
from cronflow.cli.importing import Files, Host, Labels, Zone, check_zone, print_imported, text_of

Module = Annotated[
    str | None,
    typer.Option("--module", metavar="NAME", help="The module of functions that the file defines; else its name."),
]


@imports.command()
def kubernetes(files: Files, tz: Zone = None, label: Labels = None, host: Host = None) -> None:
    """Import CronJobs of Kubernetes, for example from `kubectl get cronjobs -A -o yaml`."""
    from cronflow.importers.kubernetes import read_kubernetes

    read = partial(read_kubernetes, tz=check_zone(tz))
    print_imported(lambda path: read(text_of(path), str(path)), files, label, host)


@imports.command()
def dkron(files: Files, tz: Zone = None, label: Labels = None, host: Host = None) -> None:
    """Import jobs of Dkron, for example from `curl http://HOST:8080/v1/jobs`."""
    from cronflow.importers.dkron import read_dkron

    read = partial(read_dkron, tz=check_zone(tz))
    print_imported(lambda path: read(text_of(path), str(path)), files, label, host)


@imports.command()
def celery(files: Files, tz: Zone = None, label: Labels = None, host: Host = None, module: Module = None) -> None:
    """Import periodic tasks of Celery: Python source, which is not executed, or a dump of django_celery_beat."""
    from cronflow.importers.celery_beat import read_celery

    read = partial(read_celery, tz=check_zone(tz), module=module)
    print_imported(lambda path: read(text_of(path), str(path)), files, label, host)


@imports.command()
def apscheduler(files: Files, tz: Zone = None, label: Labels = None, host: Host = None, module: Module = None) -> None:
    """Import jobs of APScheduler 3 from Python source, which is not executed."""
    from cronflow.importers.apscheduler import read_apscheduler

    read = partial(read_apscheduler, tz=check_zone(tz), module=module)
    print_imported(lambda path: read(text_of(path), str(path)), files, label, host)
