"""Reads what an importer printed, as `cronflow jobs apply` does."""

from __future__ import annotations

from pathlib import Path

from cronflow.domain.job import Job
from cronflow.files.jobs import read_jobs
from cronflow.importers.imported import ImportedFile, completed
from cronflow.importers.yaml_text import write_yaml


def jobs_of(file: ImportedFile, folder: Path) -> dict[str, Job]:
    """The jobs of the file that is printed, by name."""
    path = folder / "jobs.yaml"
    path.write_text(write_yaml(completed([file])), "utf-8")
    return {job.name: job for job in read_jobs([path]).jobs}


def text_of(file: ImportedFile) -> str:
    """What is printed, with comments on one line each."""
    return " ".join(write_yaml(completed([file])).replace("\n", " ").replace("#", " ").split())
