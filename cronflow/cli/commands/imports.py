"""`cronflow import …`: prints the jobs of other schedulers as a job file, without a cluster."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from cronflow.cli.importing import Files, Host, Labels, Zone, check_zone, print_imported, text_of
from cronflow.cli.main import new_group

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
) -> None:
    """Import crontabs: /etc/crontab, files of /etc/cron.d, and those of users."""
    from cronflow.importers.crontab import read_crontab

    zone = check_zone(tz)
    read = partial(read_crontab, tz=zone, user_column=user_column)
    print_imported(lambda path: read(text_of(path), str(path)), files, label, host)
