"""What is exported applies again without a change, whatever the settings of the cluster are."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from cronflow.documents import job_document
from cronflow.documents.masking import masked
from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import CommandTarget, Job, PythonTarget, Retry
from cronflow.files.export import file_text, job_of, write_folder
from cronflow.files.jobs import read_jobs
from tests.drawing import examples
from tests.test_documents import jobs as any_job

OTHER = Retry(max=9, initial="7s")


def again(text: str, folder: Path) -> list[Job]:
    path = folder / "exported.yaml"
    path.write_text(text, "utf-8")
    return read_jobs([path], check_python=False, retry=OTHER, tz="Asia/Tokyo").jobs


@settings(
    max_examples=examples(50),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(any_job.filter(lambda job: not job.name.startswith("_sys:")))
def test_every_job_survives_its_file(tmp_path_factory: pytest.TempPathFactory, job: Job) -> None:
    shown = job_of({**job_document(job), "state": "active", "version": 3}, may_be_masked=False)
    assert again(file_text([shown]), tmp_path_factory.getbasetemp()) == [job]


def test_several_jobs_are_one_list_with_the_hint_for_editors(tmp_path: Path) -> None:
    jobs = [
        Job(
            name="one",
            target=CommandTarget("set -e\ncat <<END\n  indented: $TOKEN\nEND\n", env={"TOKEN": "${secret:PAY}"}),
        ),
        Job(
            name="on", target=PythonTarget("a:b", {"yes": "no", "n": 1.5, "deep": [{"null": None}]}), description="# é"
        ),
    ]
    text = file_text(jobs)
    assert text.startswith("# yaml-language-server: $schema=job-file.schema.json\njobs:\n  - name: one\n")
    assert "      shell: |\n        set -e\n" in text
    assert again(text, tmp_path) == jobs


def test_masked_values_are_refused_and_references_stay() -> None:
    document = job_document(Job(name="pay", target=PythonTarget("a:b", {"token": "hunter2", "key": "${secret:PAY}"})))
    with pytest.raises(InvalidInput, match=r"pay: run.args.token has a password or token that is hidden from you"):
        job_of(masked(document), may_be_masked=True)
    assert "${secret:PAY}" in file_text([job_of(document, may_be_masked=True)])


def test_a_folder_gets_a_file_per_job_and_files_are_only_replaced_on_request(tmp_path: Path) -> None:
    jobs = [Job(name=name, target=CommandTarget("true")) for name in ("b", "a.c")]
    folder = tmp_path / "new" / "jobs"
    assert sorted(path.name for path in write_folder(jobs, folder)) == ["a.c.yaml", "b.yaml"]
    assert sorted(path.name for path in folder.iterdir()) == ["a.c.yaml", "b.yaml", "job-file.schema.json"]
    assert {job.name for job in read_jobs(sorted(folder.glob("*.yaml"))).jobs} == {"a.c", "b"}
    (folder / "b.yaml").write_text("mine")
    (folder / "a.c.yaml").unlink()
    with pytest.raises(InvalidInput, match=r"b.yaml exists"):
        write_folder(jobs, folder)
    assert not (folder / "a.c.yaml").exists()
    write_folder(jobs, folder, force=True)
    assert (folder / "b.yaml").read_text() != "mine"
