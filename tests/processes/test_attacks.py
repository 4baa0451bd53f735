"""What a command finds out about the node that runs it: attacks by real jobs on real nodes."""

from __future__ import annotations

import base64
import secrets
from dataclasses import replace
from pathlib import Path

import pytest

from cronflow.domain.job import CommandTarget
from cronflow.domain.run import Run, RunState
from tests import children
from tests.processes.conftest import process_cluster
from tests.waiting import eventually

pytestmark = pytest.mark.chaos

ATTACK = """
pid=$$
while [ "$pid" -gt 1 ]; do
    pid=$(sed 's/.*) . //; s/ .*//' "/proc/$pid/stat")
    for file in environ cmdline; do
        tr '\\0' '\\n' <"/proc/$pid/$file" | sed "s/^/$pid $file /"
    done
    ls -l "/proc/$pid/environ" | cut -d' ' -f1,3 | sed "s/^/$pid owner /"
done >"$OUT" 2>/dev/null
grep -l -e "$KEY" /proc/[0-9]*/environ /proc/[0-9]*/cmdline >"$OUT.all" 2>/dev/null
true
"""


async def test_a_shell_job_finds_no_key_and_no_address_of_a_server_in_any_process_above_it(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    found, key = tmp_path / "found", base64.b64encode(secrets.token_bytes(32)).decode()
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster:
        cluster.begin = children.start
        cluster.limits |= {"CRONFLOW_SECRETS_KEY": key, "AWS_SECRET_ACCESS_KEY": key}
        await cluster.up("a")
        # The job itself may be seen by others of its user, so it gets only the first half.
        target = CommandTarget(ATTACK, env={"OUT": str(found), "KEY": key[:20] + "[" + key[20] + "]"})
        await cluster.apply(replace(cluster.job("spy", every=None), target=target))
        # The second attack finds the processes that the node has started for the first one.
        for _ in range(2):
            run_id = await cluster.service.jobs.trigger("spy")

            async def ended(run_id: str = run_id) -> Run | None:
                run = await cluster.service.runs.get(run_id)
                return None if run.is_open else run

            run = await eventually(ended, what="the attack has ended")
            assert run is not None
            assert run.state is RunState.SUCCEEDED, run.error
        node = cluster.children["a"].pid
    lines = found.read_text().splitlines()
    # The attack has reached the node, and read what is no secret.
    assert any(line.startswith(f"{node} cmdline ") and line.endswith(" cronflow") for line in lines)
    assert {line.strip() for line in lines if line.startswith(f"{node} environ ")} <= {f"{node} environ"}
    assert not [line for line in lines if "CRONFLOW_" in line or key in line or mongo_url in line]
    assert (tmp_path / "found.all").read_text() == ""
