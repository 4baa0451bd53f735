"""`cronflow import …`: prints the jobs of other schedulers as a job file, without a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from cronflow.cli.importing import Files, Host, Labels, Zone, check_zone, files_of, print_files, text_of
from cronflow.cli.main import new_group
from cronflow.cli.unit_files import units_of

imports = new_group("Print the jobs of another scheduler as a job file. Nothing is applied.")


@imports.command()
def crontab(
    files: Files,
    tz: Zone = None,
    label: Labels = None,
    host: Host = None,
    user_column: Annotated[
        bool | None,
        typer.Option(
            "--user-column/--no-user-column",
            help="Whether the sixth column is a user, as in /etc/crontab; detected if left out.",
        ),
    ] = None,
    shadow: Annotated[
        bool,
        typer.Option(
            "--shadow", help="Only plan and record the jobs, to compare them with cron by `cronflow shadow report`."
        ),
    ] = False,
) -> None:
    """Import crontabs: /etc/crontab, the folder /etc/cron.d or its files, and those of users."""
    from cronflow.importers.crontab import read_crontabs

    zone = check_zone(tz)
    # cron reads no other names, so that backups and files of the package manager are left out.
    texts = {str(path): text_of(path) for path in files_of(files, "[A-Za-z0-9_-]+")}
    print_files([read_crontabs(texts, tz=zone, user_column=user_column)], label, host, shadow=shadow)


@imports.command()
def systemd(files: Files, tz: Zone = None, label: Labels = None, host: Host = None) -> None:
    """Import systemd timers and the services that they start: files, a folder, or `systemctl cat` on stdin."""
    from cronflow.importers.systemd import read_systemd

    zone = check_zone(tz)
    timers, find, source = units_of(files)
    print_files([read_systemd(timers, find, source, tz=zone)], label, host)
