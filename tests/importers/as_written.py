"""What a user gets from an import: the job file is written, read as `jobs apply` reads it, and compared by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from cronflow.files.jobs import read_job_files
from cronflow.importers.imported import ImportedFile, completed
from cronflow.importers.yaml_text import write_yaml


def jobs_of(file: ImportedFile, folder: Path) -> dict[str, dict[str, Any]]:
    """The documents of the jobs by name, as written, without the name. The file that has them can be applied."""
    text = written(file)
    path = folder / "imported.yaml"
    path.write_text(text, "utf-8")
    documents = {job.pop("name"): job for job in yaml.safe_load(text)["jobs"]}
    assert {job.name for job in read_job_files([path], check_python=False)} == documents.keys()
    return documents


def written(file: ImportedFile) -> str:
    return write_yaml(completed([file]))


def notes_of(file: ImportedFile, name: str) -> str:
    """All notes of a job in one text."""
    return "\n".join(note.text for job in file.jobs if job.name == name for note in job.notes)


def reasons(file: ImportedFile) -> dict[str, str]:
    """Why entries were refused, by their place."""
    return {refusal.place: refusal.reason for refusal in completed([file])[0].refusals}
