"""The JSON Schema of job files: a file of the package, made from the tables of the documents."""

from __future__ import annotations

from importlib.resources import files

FILE_NAME = "job-file.schema.json"
HINT = f"# yaml-language-server: $schema={FILE_NAME}"
"""The first line of a job file: editors with the YAML language server then complete and check its keys."""


def schema_text() -> str:
    return files("cronflow.files").joinpath(FILE_NAME).read_text(encoding="utf-8")
