"""The schedule load and spreading through the API: names, drill-down, plans, conflicts and rights."""

from __future__ import annotations

from typing import Any

import pytest

from cronflow.domain.access import Principal, Role
from cronflow.domain.schedule.kinds import Cron, Every
from cronflow.ports import AuditQuery
from tests.api.conftest import Client
from tests.cli.scene import Scene, job

TWO = 14
"""The hour of the week, which begins at noon, in which it is two o'clock at night."""


async def herd(scene: Scene, count: int = 8, cron: str = "0 2 * * *") -> None:
    for n in range(count):
        await scene.service.jobs.define(job(f"herd-{n}", Cron(cron), labels={"team": "night"}))


async def test_the_load_counts_minutes_and_names_jobs(scene: Scene, client: Client) -> None:
    await herd(scene)
    await scene.service.jobs.define(job("busy", Every("30s"), labels={"team": "night"}))
    asked = {"label": "team=night", "hour": "2026-11-22T02:30:00Z"}
    found = await client.get("/schedules/load", params=asked, who="viewer")
    assert (found["first"], found["starts"], found["jobs"], found["left_out"]) == ("2026-11-21T12:00:00Z", 56, 8, 1)
    two = {"starts": 8, "peak": 8, "minute": 0, "jobs": 8, "names": [f"herd-{n}" for n in range(5)]}
    assert found["hours"][TWO] == two
    assert found["hours"][0] == {"starts": 0, "peak": 0, "minute": None, "jobs": 0, "names": []}
    busiest = {"at": "2026-11-22T02:00:00Z", "starts": 8, "jobs": 8, "names": [f"herd-{n}" for n in range(8)]}
    assert (found["busiest"][0], found["hour"]) == (busiest, [busiest])
    assert found["levels"] == [8, 8, 8, 8]
    frequent = await client.get("/schedules/load", params={**asked, "frequent": "true"}, who="viewer")
    assert (frequent["left_out"], frequent["jobs"], frequent["hours"][TWO]["peak"]) == (0, 9, 10)
    assert frequent["hour"][1] == {"at": "2026-11-22T02:01:00Z", "starts": 2, "jobs": 1, "names": ["busy"]}
    of_name = await client.get("/schedules/load", params={"name": "herd-[01]"})
    assert of_name["jobs"] == 2


async def test_paused_jobs_do_not_count(scene: Scene, client: Client) -> None:
    await herd(scene)
    await scene.service.jobs.pause("herd-1")
    found = await client.get("/schedules/load", params={"label": "team=night"})
    assert (found["jobs"], found["hours"][TWO]["names"][:2]) == (7, ["herd-0", "herd-2"])


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"job": "nobody"}, 404),
        ({"cron": "61 * * * *"}, 422),
        ({"cron": "0 2 * * *", "job": "etl"}, 422),
        ({"hour": "2026-11-28T12:00:00Z"}, 422),
        ({"hour": "2026-11-21T11:59:59Z"}, 422),
        ({"hour": "noon"}, 422),
    ],
)
async def test_the_load_refuses_what_it_cannot_show(client: Client, asked: dict[str, str], status: int) -> None:
    await client.get("/schedules/load", status, params=asked)


async def test_a_plan_is_shown_applied_and_undone(scene: Scene, client: Client) -> None:
    await herd(scene)
    asked = {"label": ["team=night"], "dry_run": True}
    plan = await client.post("/jobs/spread", asked)
    assert (plan["applied"], plan["selected"], len(plan["moves"])) == (False, 8, 8)
    assert plan["before"]["peak"] >= 8 > plan["after"]["peak"]
    assert (await client.get("/jobs/herd-0"))["version"] == 1, "nothing is written"
    assert await client.post("/jobs/spread", asked) == plan
    moved = await client.post("/jobs/spread/apply", {"moves": sent(plan)})
    assert [(one["job"], one["version"], one["after"]) for one in moved["moves"]] == [
        (one["job"], 2, one["after"]) for one in plan["moves"]
    ]
    after = await client.get("/schedules/load", params={"label": "team=night"})
    assert after["hours"][TWO]["peak"] == 1
    again = await client.post("/jobs/spread/apply", {"moves": sent(plan)})
    assert again["moves"] == [{**one, "before": ""} for one in moved["moves"]], "a repetition changes nothing"
    back = [{"job": one["job"], "version": one["version"], "cron": one["before"]} for one in moved["moves"]]
    await client.post("/jobs/spread/apply", {"moves": back})
    assert (await client.get("/jobs/herd-3"))["schedule"]["cron"] == "0 2 * * *"


async def test_spreading_without_a_dry_run_writes_the_plan_it_returns(scene: Scene, client: Client) -> None:
    await herd(scene)
    done = await client.post("/jobs/spread", {"name": "herd-*"})
    assert done["applied"]
    for move in done["moves"]:
        shown = await client.get(f"/jobs/{move['job']}")
        assert (shown["schedule"]["cron"], shown["version"]) == (move["after"], move["version"])
    [entry] = await scene.backends.audit.find(AuditQuery(action="job.spread"))
    assert entry.after == {move["job"]: move["after"] for move in done["moves"]}
    assert entry.before == {move["job"]: "0 2 * * *" for move in done["moves"]}


async def test_nothing_moves_if_one_job_was_changed_since_the_plan(scene: Scene, client: Client) -> None:
    await herd(scene)
    plan = await client.post("/jobs/spread", {"name": "herd-*", "dry_run": True})
    await scene.service.jobs.amend("herd-3", lambda present: job(present.name, Cron("0 4 * * *")))
    refused = await client.post("/jobs/spread/apply", {"moves": sent(plan)}, 409)
    assert refused["detail"] == (
        "herd-3 changed since the plan was made; nothing was moved (plan again and apply the new plan)"
    )
    for n in (0, 1, 2, 4):
        assert (await client.get(f"/jobs/herd-{n}"))["version"] == 1


async def test_moves_only_change_the_minute_of_jobs_that_exist(scene: Scene, client: Client) -> None:
    await herd(scene)

    async def refused(status: int, *moves: dict[str, object]) -> Any:
        return await client.post("/jobs/spread/apply", {"moves": list(moves)}, status)

    right = {"job": "herd-0", "version": 1, "cron": "7 2 * * *"}
    wrong = await refused(422, right, {**right, "job": "herd-1", "cron": "7 3 * * *"})
    assert [error["place"] for error in wrong["errors"]] == ["moves[1].cron"]
    await refused(422, right, right)
    await refused(422, {**right, "cron": "61 2 * * *"})
    await refused(404, right, {**right, "job": "nobody"})
    await refused(409, {**right, "version": 7})
    assert (await client.get("/jobs/herd-0"))["version"] == 1
    assert (await client.post("/jobs/spread/apply", {"moves": []}))["moves"] == []


async def test_spreading_needs_a_selection_and_the_role_of_an_editor(scene: Scene, client: Client) -> None:
    await herd(scene)
    problem = await client.post("/jobs/spread", {"dry_run": True}, 422)
    assert "no jobs are selected" in problem["detail"]
    await client.post("/jobs/spread", {"name": "*", "by": "luck"}, 422)
    await client.post("/jobs/spread", {"name": "*", "dry_run": True}, 403, who="operator")
    await client.post("/jobs/spread/apply", {"moves": []}, 403, who="operator")
    assert (await client.post("/jobs/spread", {"name": "herd-*", "dry_run": True}, who="editor"))["moves"]


async def test_an_editor_moves_only_jobs_it_may_change(scene: Scene) -> None:
    await herd(scene)
    await scene.service.jobs.define(job("other", Cron("0 2 * * *")))
    editor = Principal("eve", Role.EDITOR, jobs=("herd-*",), reads_all=True)
    from cronflow.usecases.search import JobFilter

    found = await scene.service.spread.propose(JobFilter(name="*"), may_change=editor.may_change)
    assert {move.job.partition("-")[0] for move in found.plan.moves} == {"herd"}
    assert "other" in found.plan.left_out["your permissions do not allow the change"].names


def sent(plan: Any) -> list[dict[str, object]]:
    return [{"job": one["job"], "version": one["version"], "cron": one["after"]} for one in plan["moves"]]
