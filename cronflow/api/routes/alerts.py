"""Alerts: notifications when something goes wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import Path, Response

from cronflow.api.access import Admin, Viewer
from cronflow.api.bodies import Body, Uses, takes
from cronflow.api.pagination import Cursor, Limit, cursor_of, first_of, name_key, time_key
from cronflow.api.responses import PREFIX, may, new_router
from cronflow.documents.alerts import parse_alert
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.schemas import Schema
from cronflow.schemas.alerts import (
    AlertSchema,
    AnswerSchema,
    NotificationSchema,
    alert_schema,
    answer_schema,
    notification_schema,
)

router = new_router("alerts")

EXAMPLE = {
    "name": "billing",
    "on": ["failed", "recovered", "late"],
    "jobs": ["billing-*"],
    "webhook": {"url": "https://hooks.example.com/cronflow", "secret": "${secret:HOOKS}"},
    "late_after": "10m",
}
REPLACEMENT = {key: value for key, value in EXAMPLE.items() if key != "name"}


class AlertPage(Schema):
    """Alerts, by name."""

    items: list[AlertSchema]
    """The alerts."""
    next_cursor: str | None
    """For the next page; null: this is the last page."""


class NotificationPage(Schema):
    """Notifications of an alert, newest first."""

    items: list[NotificationSchema]
    """The notifications."""
    next_cursor: str | None
    """For the next page; null: this is the last page."""


AlertName = Annotated[str, Path(description="The alert.")]


@router.get("/alerts")
async def list_alerts(service: Uses, _: Viewer, cursor: Cursor = None, limit: Limit = 50) -> AlertPage:
    """Alerts, by name. Secrets are shown only as references."""
    found = await service.alerts.find(after=name_key(cursor), limit=limit + 1)
    shown, after = first_of(found, limit, lambda record: record.name)
    return {"items": [alert_schema(record) for record in shown], "next_cursor": after}


@router.post("/alerts", status_code=201, responses=may(409), openapi_extra=takes("AlertInput", EXAMPLE))
async def create_alert(service: Uses, by: Admin, body: Body, response: Response) -> AlertSchema:
    """Create an alert; it applies to events from now on. 409 when the name exists."""
    alert = parse_alert(body)
    record = await service.alerts.create(alert, by=by.name)
    response.headers["Location"] = f"{PREFIX}/alerts/{alert.name}"
    return alert_schema(record)


@router.get("/alerts/{name}", responses=may(404))
async def show_alert(service: Uses, _: Viewer, name: AlertName) -> AlertSchema:
    """An alert."""
    return alert_schema(await service.alerts.get(name))


@router.put("/alerts/{name}", responses=may(201, 409), openapi_extra=takes("AlertReplacement", REPLACEMENT))
async def put_alert(service: Uses, by: Admin, name: AlertName, body: Body, response: Response) -> AlertSchema:
    """Create or replace an alert; additions apply to events from now on. The body may omit the name. 409 when it
    is changed concurrently.
    """
    alert = parse_alert({"name": name, **body} if isinstance(body, Mapping) else body)
    if alert.name != name:
        raise InvalidInput(Problem("name", f"is {alert.name!r}, but the path has {name!r}", "leave it out"))
    record, result = await service.alerts.define(alert, by=by.name)
    response.status_code = 201 if result == "created" else 200
    return alert_schema(record)


@router.delete("/alerts/{name}", status_code=204, response_class=Response, responses=may(404))
async def delete_alert(service: Uses, by: Admin, name: AlertName) -> None:
    """Delete an alert with its notifications; pending ones are not sent."""
    await service.alerts.delete(name, by=by.name)


@router.get("/alerts/{name}/notices", responses=may(404))
async def list_notices(
    service: Uses, _: Viewer, name: AlertName, cursor: Cursor = None, limit: Limit = 50
) -> NotificationPage:
    """Notifications of an alert with their delivery status, newest first."""
    found = await service.alerts.notifications(name, before=time_key(cursor), limit=limit + 1)
    shown = found[:limit]
    after = cursor_of(shown[-1].created_at, shown[-1].id) if len(found) > limit else None
    return {"items": [notification_schema(notification) for notification in shown], "next_cursor": after}


@router.post("/alerts/{name}/test", responses=may(404))
async def test_alert(service: Uses, by: Admin, name: AlertName) -> AnswerSchema:
    """Send a sample of each kind of the alert now and return the responses of its receiver. A webhook in JSON gets a
    single notification of the kind `test`. Nothing is retried.
    """
    return answer_schema(await service.alerts.test(name, by=by.name))
