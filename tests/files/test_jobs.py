"""Job files: good ones become jobs; what is wrong in bad ones is told with file, line, key and remedy."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cronflow.documents import joined
from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import CommandTarget, Job, PythonTarget, Retry
from cronflow.domain.schedule.kinds import Every, Once
from cronflow.files.jobs import read_job_files
from cronflow.files.yaml_source import yaml_documents


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory; paths in errors are relative to it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def problems_of(*texts: str | bytes, check_python: bool = True) -> list[str]:
    """What is wrong with the files a.yaml, b.yaml … of these texts in the working directory."""
    paths = [Path(f"{dead_letter}.yaml") for dead_letter in "abc"[: len(texts)]]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InvalidInput) as caught:
        read_job_files(paths, check_python=check_python)
    return [str(problem) for problem in caught.value.problems]


def jobs_of(text: str, *, name: str = "a.yaml") -> list[Job]:
    Path(name).write_text(text, "utf-8")
    return read_job_files([name])


# ------------------------------------------------------------------------------------------------------ what is taken


@pytest.mark.usefixtures("folder")
def test_lists_single_jobs_and_several_documents_are_read_in_order() -> None:
    jobs = jobs_of(
        "jobs:\n  - {name: one, run: {shell: a}}\n  - {name: two, run: {shell: b}}\n"
        "---\nname: three\nrun: {shell: c}\n"
        "---\n# an empty document\n"
    )
    assert [job.name for job in jobs] == ["one", "two", "three"]


@pytest.mark.usefixtures("folder")
def test_json_is_read_by_the_rules_of_json() -> None:
    job = {
        "name": "emoji",
        "description": "party \N{PARTY POPPER} and a literal \\ud83c\\udf89",
        "run": {"python": "os:getcwd", "args": {"huge": 1e30, "tiny": 1.5e-7, "text": "1e3", "path": "a/b\tc"}},
    }
    text = json.dumps({"jobs": [job]}, indent="\t").replace("a/b", "a\\/b")
    assert "\\ud83c\\udf89" in text
    [read] = jobs_of(text, name="jobs.json")
    assert read.description == job["description"]
    assert read.target == PythonTarget("os:getcwd", {"huge": 1e30, "tiny": 1.5e-7, "text": "1e3", "path": "a/b\tc"})


@pytest.mark.usefixtures("folder")
def test_yaml_that_looks_like_an_escape_of_json_stays_as_it_is() -> None:
    [job] = jobs_of("name: a\nrun: {shell: x}\ndescription: \\ud83c\\udf89\n")
    assert job.description == "\\ud83c\\udf89"


@pytest.mark.usefixtures("folder")
def test_times_and_dates_need_no_quotes() -> None:
    daily, once = jobs_of(
        """
        jobs:
          - {name: daily, run: {shell: x}, schedule: {every: 1d, time: 12:30, start: 2026-01-01T00:00:00Z}}
          - name: once
            run: {python: "os:getcwd", args: {day: 2026-01-01, zip: 01234}}
            schedule: {at: 2026-12-24T18:00:00+01:00}
        """
    )
    assert isinstance(daily.schedule, Every)
    assert daily.schedule.time == "12:30"
    assert isinstance(once.schedule, Once)
    assert once.schedule.at.isoformat() == "2026-12-24T17:00:00+00:00"
    assert once.target == PythonTarget("os:getcwd", {"day": "2026-01-01", "zip": "01234"})


@pytest.mark.usefixtures("folder")
def test_anchors_and_merges_share_parts_between_jobs() -> None:
    one, two = jobs_of(
        """
        jobs:
          - &first {name: one, run: {shell: a}, labels: &team {team: billing, tier: gold}, timeout: 5s}
          - {<<: *first, name: two, labels: {<<: *team, tier: silver}}
        """
    )
    assert two.timeout == one.timeout
    assert two.labels == {"team": "billing", "tier": "silver"}
    assert two.target == CommandTarget("a")


@pytest.mark.usefixtures("folder")
def test_the_retry_of_the_settings_reaches_the_jobs() -> None:
    Path("a.yaml").write_text("name: a\nrun: {shell: x}\n")
    [job] = read_job_files(["a.yaml"], retry=Retry(max=1))
    assert job.retry == Retry(max=1)


@pytest.mark.usefixtures("folder")
def test_no_jobs_may_be_asked_for_in_so_many_words() -> None:
    assert jobs_of("jobs: []") == []


# ---------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.usefixtures("folder")
def test_all_problems_of_all_files_are_reported_at_once() -> None:
    first = """\
jobs:
  - name: one
    schedule:
      cron: "0 2 * *"
    run:
      shell: a
    tiemout: 5s
  - name: two
"""
    second = "name: three\nrun:\n  argv: [sleep,\n    5]\n"
    assert problems_of(first, second, "jobs: [") == [
        (
            "a.yaml:4: jobs[0].schedule.cron: cron '0 2 * *' has 4 fields (write 5 fields, minute hour day-of-month"
            " month day-of-week, or 6 with seconds in front)"
        ),
        "a.yaml:7: jobs[0].tiemout: unknown key (did you mean timeout?)",
        "a.yaml:8: jobs[1].run: missing (add what to run: python, shell, argv, http or amqp)",
        "b.yaml:4: run.argv[1]: expected text, got the number 5 (put it in quotes)",
        (
            "c.yaml:1: not YAML: while parsing a flow node: did not find expected node content"
            " (look at quotes, brackets and indentation)"
        ),
    ]


@pytest.mark.usefixtures("folder")
def test_invalid_yaml_is_reported_with_its_line() -> None:
    assert problems_of('name: a\nrun:\n  shell: "x\ntimeout: 5s\n') == [
        (
            "a.yaml:4: not YAML: while scanning a quoted scalar: found unexpected end of stream, started in line 3"
            " (look at quotes, brackets and indentation)"
        )
    ]


@pytest.mark.usefixtures("folder")
def test_an_alias_of_nothing_is_refused() -> None:
    assert problems_of("name: a\nrun: *nothing\n") == [
        "a.yaml:2: not YAML: found undefined alias (look at quotes, brackets and indentation)"
    ]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n---\n", "null"])
def test_a_file_without_jobs_is_refused(text: str) -> None:
    assert problems_of(text) == ["a.yaml: has no jobs (write jobs: and a list of jobs below it)"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "- name: a\n",
            "a.yaml:1: expected a mapping with jobs, got a list (write jobs: and indent the list below it)",
        ),
        ("\njobs:\n", "a.yaml:2: jobs: expected a list of jobs, got nothing (begin each job with a dash)"),
        (
            "job:\n  name: a\n",
            "a.yaml:1: has neither jobs nor the keys of a job (write jobs: and a list of jobs below it)",
        ),
        (
            "jobs: []\nversion: {}\n",
            "a.yaml:2: version: unknown key next to jobs (move it into the jobs, or remove it)",
        ),
        ("jobs:\n  - 5\n", "a.yaml:2: jobs[0]: expected a mapping, got the number 5"),
    ],
)
def test_a_file_of_another_shape_is_refused(text: str, problem: str) -> None:
    assert problems_of(text) == [problem]


def test_a_file_that_is_not_there_is_refused(folder: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_job_files(["nope.yaml", "/nowhere/nope.yaml"])
    assert [str(problem) for problem in caught.value.problems] == [
        f"nope.yaml: no such file (relative to {folder})",
        "/nowhere/nope.yaml: no such file",
    ]


def test_a_folder_is_refused(folder: Path) -> None:
    (folder / "jobs").mkdir()
    with pytest.raises(InvalidInput) as caught:
        read_job_files(["jobs"])
    assert str(caught.value) == "jobs: is a directory (name files, such as jobs/*.yaml)"


@pytest.mark.usefixtures("folder")
def test_a_file_may_be_larger_than_a_request_to_the_api() -> None:
    job = "name: a\nrun: {shell: x}\n"
    assert len(jobs_of(job + "#" * 2_000_000)) == 1


@pytest.mark.usefixtures("folder")
def test_text_that_is_not_utf_8_is_refused() -> None:
    assert problems_of(b"name: a\ndescription: caf\xe9\n") == [
        "a.yaml:2: not UTF-8: the byte 0xe9 (save the file as UTF-8)"
    ]


@pytest.mark.usefixtures("folder")
def test_a_control_character_is_refused() -> None:
    assert problems_of("name: a\nrun: {shell: \x07}\n") == [
        "a.yaml:2: the control character U+0007 (remove it, or write it as an escape in double quotes)"
    ]


@pytest.mark.usefixtures("folder")
def test_a_key_that_occurs_twice_is_refused() -> None:
    assert problems_of("name: a\nrun:\n  shell: x\n  env: {A: b}\n  shell: y\n") == [
        "a.yaml:5: run.shell: the key shell occurs twice, first in line 3 (remove one of the two)"
    ]


@pytest.mark.usefixtures("folder")
def test_a_key_that_is_no_text_is_refused() -> None:
    assert problems_of("name: a\n? [run]\n: x\n") == ["a.yaml:2: a key that is not text (write the key as text)"]


@pytest.mark.usefixtures("folder")
def test_merging_anything_but_a_mapping_is_refused() -> None:
    assert problems_of("name: a\n<<: [{}, 3]\n") == [
        "a.yaml:2: << expects a mapping, got the number 3 (name the alias of a mapping)"
    ]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("item", ["[{}]", "{{<<: [{}]}}"])
def test_an_alias_bomb_is_refused_before_it_goes_off(item: str) -> None:
    levels = ["bomb: [&a0 {x: 1},"]
    levels += [f"&a{n} {item.format(', '.join([f'*a{n - 1}'] * 10))}," for n in range(1, 30)]
    [problem] = problems_of("\n".join([*levels, "]"]))
    file, line, what = problem.split(":", 2)
    assert (file, what) == (
        "a.yaml",
        " the aliases repeat more than 100,000 values (write the values out, or use fewer aliases)",
    )
    assert 1 < int(line) <= 30


@pytest.mark.usefixtures("folder")
def test_the_repetitions_of_all_documents_of_a_file_are_counted_together() -> None:
    document = f"x: [&a [{'1,' * 1000}], {'*a,' * 50}]\n---\n"
    [problem] = problems_of(document * 3)[-1:]
    assert problem.endswith(" the aliases repeat more than 100,000 values (write the values out, or use fewer aliases)")


@pytest.mark.usefixtures("folder")
def test_an_alias_inside_of_itself_is_refused() -> None:
    assert problems_of("name: a\nrun: &x [*x]\n") == [
        "a.yaml:2: an alias is inside the value that it repeats (write the values out)"
    ]


@pytest.mark.usefixtures("folder")
def test_endless_nesting_is_refused() -> None:
    assert problems_of("name: a\nrun: " + "[" * 500_000) == [
        "a.yaml:2: nested more than 100 levels deep (reduce the nesting)"
    ]


@pytest.mark.usefixtures("folder")
def test_nesting_is_counted_from_the_outermost_bracket() -> None:
    [problem] = problems_of("name: a\nrun: " + "[" * 99 + "]" * 99)
    assert problem == "a.yaml:2: run: expected a mapping, got a list"
    [problem] = problems_of("name: a\nrun: " + "[" * 100 + "]" * 100)
    assert problem == "a.yaml:2: nested more than 100 levels deep (reduce the nesting)"


@pytest.mark.usefixtures("folder")
def test_a_tag_is_refused() -> None:
    assert problems_of("name: a\nrun: !!python/object/apply:os.system [x]\n") == [
        "a.yaml:2: YAML tags are not used here (remove the word that begins with !)"
    ]


@pytest.mark.usefixtures("folder")
def test_a_number_of_too_many_digits_is_refused() -> None:
    assert problems_of(f"name: a\npriority: {'9' * 5000}\n") == [
        "a.yaml:2: a number that is too large (put it in quotes)"
    ]


@pytest.mark.usefixtures("folder")
def test_duplicate_names_are_refused_with_both_places() -> None:
    one, two = "jobs:\n  - name: a\n    run: {shell: x}\n", "\n\nname: a\nrun: {shell: y}\n"
    assert problems_of(one, two) == [
        "b.yaml:3: name: the name 'a' is taken by a.yaml:2: jobs[0].name (names must be unique; rename one)"
    ]


@pytest.mark.usefixtures("folder")
def test_a_name_of_the_system_is_refused() -> None:
    assert problems_of("name: _sys:sweep\nrun: {shell: x}\n") == [
        "a.yaml:1: name: names that begin with _sys: are reserved (choose another name)"
    ]


@pytest.mark.usefixtures("folder")
def test_the_line_of_a_missing_key_is_that_of_the_mapping_around_it() -> None:
    assert problems_of("name: a\nrun:\n  http:\n    method: GET\n") == [
        "a.yaml:3: run.http.url: missing (add the address that the request goes to)"
    ]


# --------------------------------------------------------------------------------------------------- Python targets


@pytest.fixture
def modules(folder: Path) -> Path:
    """A module next to the files; the name is the test's own, for modules are remembered by name."""
    (folder / "jobfiles_sample.py").write_text(
        "print('noise')\ndef report(): ...\nclass Thing:\n    def run(self): ...\nnumber = 5\n"
    )
    (folder / "jobfiles_broken.py").write_text("import jobfiles_not_there\n")
    (folder / "jobfiles_raising.py").write_text("raise RuntimeError('no licence')\n")
    (folder / "jobfiles_leaving.py").write_text("import sys\nsys.exit('usage')\n")
    return folder


def target(ref: str) -> str:
    return f"name: a\nrun:\n  python: {ref}\n"


@pytest.mark.parametrize(
    ("ref", "problem"),
    [
        (
            "jobfiles_nope.x:y",
            (
                "jobfiles_nope.x does not import: ModuleNotFoundError: No module named 'jobfiles_nope'"
                " (looked in {folder} and in the installed packages)"
            ),
        ),
        (
            "jobfiles_broken:f",
            (
                "jobfiles_broken does not import: ModuleNotFoundError: No module named 'jobfiles_not_there'"
                " (looked in {folder} and in the installed packages)"
            ),
        ),
        (
            "jobfiles_raising:f",
            'jobfiles_raising does not import: RuntimeError: no licence (try python -c "import jobfiles_raising")',
        ),
        (
            "jobfiles_leaving:f",
            'jobfiles_leaving does not import: SystemExit: usage (try python -c "import jobfiles_leaving")',
        ),
        ("jobfiles_sample:reprot", "jobfiles_sample has no reprot (did you mean report?)"),
        ("jobfiles_sample:Thing.go", "jobfiles_sample has no Thing.go (name a function of the module)"),
        (
            "jobfiles_sample:number",
            "jobfiles_sample:number is not a function but the number 5 (name a function of the module)",
        ),
    ],
)
def test_a_target_that_cannot_be_imported_is_refused(modules: Path, ref: str, problem: str) -> None:
    assert problems_of(target(ref)) == [f"a.yaml:3: run.python: {problem.format(folder=modules)}"]


@pytest.mark.usefixtures("modules")
def test_a_target_is_checked_even_when_the_job_has_other_problems() -> None:
    assert problems_of(target("jobfiles_sample:reprot") + "priority: 10\n") == [
        "a.yaml:3: run.python: jobfiles_sample has no reprot (did you mean report?)",
        "a.yaml:4: priority: priority is 10; it must be 0 (lowest) to 9",
    ]


def test_a_target_of_many_jobs_is_imported_once(modules: Path) -> None:
    (modules / "jobfiles_counted.py").write_text(
        "with open('count', 'a') as file:\n    file.write('x')\nraise RuntimeError\n"
    )
    assert len(problems_of(*(f"name: {name}\nrun: {{python: 'jobfiles_counted:f'}}\n" for name in "ab"))) == 2
    assert (modules / "count").read_text() == "x"


@pytest.mark.usefixtures("modules")
def test_an_invalid_target_reference_is_reported_once() -> None:
    assert problems_of(target("jobfiles_sample")) == [
        "a.yaml:3: run.python: 'jobfiles_sample' is not a Python target; write package.module:function"
    ]


def test_targets_are_found_next_to_the_file_and_leave_no_trace(
    modules: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = modules / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.delitem(sys.modules, "jobfiles_sample", raising=False)
    (modules / "a.yaml").write_text(target("jobfiles_sample:Thing.run"))
    before = list(sys.path)
    [job] = read_job_files([modules / "a.yaml"])
    assert job.target == PythonTarget("jobfiles_sample:Thing.run")
    assert sys.path == before
    assert capsys.readouterr() == ("", "noise\n")


@pytest.mark.usefixtures("folder")
def test_targets_are_imported_only_on_request() -> None:
    Path("a.yaml").write_text(target("jobfiles_nope:f"))
    assert len(read_job_files(["a.yaml"], check_python=False)) == 1


@pytest.mark.usefixtures("folder")
def test_a_word_for_true_is_text_as_a_key() -> None:
    found = problems_of("name: a\nrun: {shell: 'true'}\non: x\nYes: y")
    assert [problem.partition(" (")[0] for problem in found] == [
        "a.yaml:3: on: unknown key",
        "a.yaml:4: Yes: unknown key",
    ]


def test_lines_are_looked_up_only_in_files_with_problems(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_text: str) -> None:
        raise AssertionError("the second pass was not needed")

    monkeypatch.setattr("cronflow.files.yaml_source._roots", refuse)
    assert len(jobs_of("jobs:\n  - {name: a, run: {shell: x}}\n  - {name: b, run: {shell: y}}\n")) == 2
    with pytest.raises(AssertionError, match="was not needed"):
        problems_of("jobs:\n  - {name: A, run: {shell: x}}\n")


@pytest.mark.usefixtures("folder")
def test_an_anchor_may_be_a_key_and_a_merge_may_name_a_list() -> None:
    text = (
        "jobs:\n"
        "  - {name: &key a, run: {shell: x, env: {*key : b}}}\n"
        "  - {name: b, run: {shell: x}, labels: {<<: &both [{x: '1', y: '1'}, {y: '2', z: '2'}], z: '3'}}\n"
        "  - {name: c, run: {shell: x}, labels: {<<: *both}}\n"
    )
    first, second, third = jobs_of(text)
    assert isinstance(first.target, CommandTarget)
    assert first.target.env == {"a": "b"}
    assert (second.labels, third.labels) == ({"x": "1", "y": "1", "z": "3"}, {"x": "1", "y": "1", "z": "2"})


@pytest.mark.usefixtures("folder")
def test_an_anchor_that_occurs_twice_is_refused() -> None:
    assert problems_of("name: &x a\nrun: &x {shell: b}\n") == [
        (
            "a.yaml:2: not YAML: found duplicate anchor; first occurrence: second occurrence, started in line 1"
            " (look at quotes, brackets and indentation)"
        )
    ]


@pytest.mark.usefixtures("folder")
def test_a_problem_in_values_that_aliases_nest_deeply_is_reported() -> None:
    levels = "".join(f"  - &a{n} {'[' * 90}{f'*a{n - 1}' if n else 1}{']' * 90}\n" for n in range(30))
    found = problems_of(f"jobs:\n  - {{name: A, run: {{shell: x}}, labels: *a29}}\nx:\n{levels}")
    assert found == ["a.yaml:2: not YAML: found undefined alias (look at quotes, brackets and indentation)"]
    found = problems_of(f"x:\n{levels}jobs:\n  - {{name: A, run: {{shell: x}}, description: *a29}}\n")
    assert [problem.partition(" (")[0] for problem in found[-1:]] == [
        "a.yaml:33: jobs[0].description: expected text, got a list"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "jobs:\n  - {name: a, on: [1, {x: ~}], '': {true: 1}}\n  - []\n",
        "x: &x {a: [1, 2], b: {c: d}}\ny: {<<: *x, b: 1}\nz: [*x, {<<: [*x, {e: f}]}]\n",
        '{"a": {"b": [{"c": "d"}]}, "e": 1e3}',
    ],
)
def test_every_value_has_a_place(text: str) -> None:
    def places(value: object, place: str) -> Iterator[str]:
        yield place
        if isinstance(value, dict):
            for key, item in value.items():
                yield from places(item, joined(place, str(key)))
        elif isinstance(value, list):
            for n, item in enumerate(value):
                yield from places(item, f"{place}[{n}]")

    [document] = yaml_documents(Path("a.yaml"), text, "jobs")
    assert set(places(document.value, "")) <= set(document._places.lines)
