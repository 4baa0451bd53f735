"""The man page and the shell completions that the wheel installs."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from cronflow.cli.main import COMMANDS
from tests.children import child_environment
from tests.deploy import files
from tools.docs import man

COMPLETE = """
source "$1"
COMP_WORDS=(cronflow jobs ap)
COMP_CWORD=2
COMP_LINE="cronflow jobs ap"
_cronflow_completion cronflow ap jobs
printf '%s\\n' "${COMPREPLY[@]}"
"""


def test_the_files_are_up_to_date_and_part_of_the_wheel() -> None:
    for path, content in man.files().items():
        assert path.read_text("utf-8") == content, f"{path.name}: run make docs"
    build = tomllib.loads((files.ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]
    assert build["wheel"]["shared-data"] == {"deploy/share": "share"}
    assert "deploy/share" in build["sdist"]["include"]


def test_the_man_page_has_every_command_and_no_line_that_is_a_request_by_mistake() -> None:
    lines = man.man_page().splitlines()
    for name in COMMANDS:
        assert f".B {name}" in lines
    requests = {line.split()[0] for line in lines if line.startswith((".", "'"))}
    assert requests == {'.\\"', ".TH", ".SH", ".SS", ".TP", ".B", ".I", ".br"}


def test_bash_completes_a_command_with_the_script() -> None:
    environment = child_environment()
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    script = files.ROOT / "deploy" / "share" / man.COMPLETIONS["bash"]
    done = subprocess.run(
        ["bash", "--norc", "-c", COMPLETE, "bash", str(script)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("apply\n", "")
