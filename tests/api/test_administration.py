"""What the settings of the dashboard need: where secrets are used, calendars from files, and the configuration."""

from __future__ import annotations

import pytest

from cronflow.bootstrap.setting_rows import setting_rows
from cronflow.config import load_settings
from cronflow.documents import parse_job
from cronflow.documents.alerts import parse_alert
from cronflow.usecases.secret_uses import secret_uses
from tests.api.conftest import Client, client_of
from tests.cli.scene import Scene

HOLIDAYS = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//x//y//EN
X-WR-CALNAME:Holidays
BEGIN:VEVENT
UID:1
SUMMARY:Christmas Day
DTSTART;VALUE=DATE:20261225
RRULE:FREQ=YEARLY
END:VEVENT
BEGIN:VEVENT
UID:2
SUMMARY:Called off
STATUS:CANCELLED
DTSTART;VALUE=DATE:20261226
END:VEVENT
END:VCALENDAR
"""


async def define_jobs_with_secrets(scene: Scene) -> None:
    header = {"Authorization": "Bearer ${secret:SHOP}"}
    for name in ("import-orders", "export-orders"):
        run = {"http": {"url": "https://shop.example/orders", "headers": header}}
        await scene.service.jobs.define(parse_job({"name": name, "run": run}))
    hook = {"url": "${secret:HOOK}", "format": "slack"}
    await scene.service.alerts.create(parse_alert({"name": "night", "on": ["failed"], "webhook": hook}))


async def test_the_jobs_and_alerts_that_use_a_secret_are_listed(scene: Scene, client: Client) -> None:
    await define_jobs_with_secrets(scene)
    found = await client.get("/secrets/uses")
    assert found["items"] == [
        {"name": "HOOK", "jobs": [], "job_count": 0, "alerts": ["night"]},
        {"name": "HOOKS", "jobs": [], "job_count": 0, "alerts": ["billing"]},
        {"name": "SHOP", "jobs": ["export-orders", "import-orders"], "job_count": 2, "alerts": []},
    ]
    assert found["complete"]
    assert found["jobs_read"] >= 2
    await client.get("/secrets/uses", 403, who="editor")


async def test_a_list_of_uses_that_is_not_complete_says_so(scene: Scene) -> None:
    await define_jobs_with_secrets(scene)
    backends = scene.backends
    everything = await secret_uses(backends.jobs, backends.alerts)
    exactly = await secret_uses(backends.jobs, backends.alerts, everything.jobs_read)
    fewer = await secret_uses(backends.jobs, backends.alerts, everything.jobs_read - 1)
    assert (exactly.complete, exactly.jobs_read) == (True, everything.jobs_read)
    assert (fewer.complete, fewer.jobs_read) == (False, everything.jobs_read - 1)


async def test_an_icalendar_file_becomes_a_calendar_that_can_be_stored(client: Client) -> None:
    asked = {"text": HOLIDAYS, "first": "2026-01-01", "last": "2028-12-31"}
    read = await client.post("/calendars/holidays/read", asked, who="editor")
    assert read["calendar"]["description"] == "Holidays"
    assert [one["day"] for one in read["calendar"]["days"]] == ["2026-12-25", "2027-12-25", "2028-12-25"]
    assert read["left_out"] == {"cancelled": 1}
    await client.get("/calendars/holidays", 404)
    await client.ask("PUT", "/calendars/holidays", read["calendar"])
    shown = await client.get("/calendars/holidays", params={"coming": 1})
    assert shown["coming_days"] == [{"day": "2026-12-25", "weekday": "fri", "name": "Christmas Day"}]
    assert len((await client.get("/calendars/holidays"))["coming_days"]) == 2


@pytest.mark.parametrize(
    ("asked", "place", "what"),
    [
        ({"text": "no calendar"}, "text", "this is not an iCalendar file"),
        ({"text": HOLIDAYS, "first": "2027-01-01", "last": "2026-01-01"}, "last", "is before"),
        ({"text": HOLIDAYS, "first": "soon"}, "first", "is not a day"),
        ({}, "text", "missing"),
    ],
)
async def test_a_file_that_cannot_be_read_is_refused(
    client: Client, asked: dict[str, str], place: str, what: str
) -> None:
    refused = await client.post("/calendars/holidays/read", asked, status=422)
    assert refused["errors"][0]["place"] == place
    assert what in refused["detail"]


async def test_every_setting_is_shown_with_its_default_and_its_source_but_no_password(scene: Scene) -> None:
    environ = {
        "CRONFLOW_SLOTS": "4",
        "CRONFLOW_ADMIN_PASSWORD": "correct horse battery",
        "CRONFLOW_REDIS_URL": "redis://user:hunter2@host:6379/0",
    }
    settings = load_settings({"namespace": "blue"}, environ=environ)
    async with client_of(scene.service, settings=lambda: setting_rows(settings)) as client:
        text = (await client.ask("GET", "/cluster/config")).text
        found = {one["name"]: one for one in (await client.get("/cluster/config"))["items"]}
        await client.get("/cluster/config", 403, who="editor")
    assert "horse" not in text
    assert "hunter2" not in text
    slots = found["SLOTS"]
    assert (slots["value"], slots["default"], slots["source"]) == ("4", "16", "environment CRONFLOW_SLOTS")
    assert slots["description"] == "How many runs a node executes concurrently."
    assert (found["NAMESPACE"]["value"], found["NAMESPACE"]["source"]) == ("blue", "flag")
    assert (found["ADMIN_PASSWORD"]["value"], found["ADMIN_PASSWORD"]["hidden"]) == ("***", True)
    assert found["NODE_NAME"]["default"] is None
    assert (found["HEARTBEAT"]["value"], found["HEARTBEAT"]["source"]) == ("5s", "default")
    assert all(one["description"] for one in found.values())
