"""Alerts through the API, and out of their shapes; the counterpart of `cronflow.schemas.alerts`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from cronflow.client.aio import AsyncClient
from cronflow.client.calls import Call, path_of
from cronflow.documents.alerts import AlertForm, alert_document, parse_alert
from cronflow.domain.alerts import Alert, AlertKind, AlertRecord, Answer, Notification, NotificationState
from cronflow.domain.errors import NotFound
from cronflow.remote.pages import Pages
from cronflow.remote.plain import instant, optional_instant, understood
from cronflow.schemas.alerts import AlertSchema, AnswerSchema, NotificationSchema
from cronflow.usecases.alerts import Result


def alert_of(shape: AlertSchema) -> AlertRecord:
    """An alert. How far the cluster has judged is its own affair, and so is the count of edits."""
    since = instant(shape["since"])
    return AlertRecord(
        alert=parse_alert({name: shape[name] for name in AlertForm.__annotations__}),  # type: ignore[literal-required]
        since=since,
        judged=since,
        created_at=instant(shape["created_at"]),
        updated_at=instant(shape["updated_at"]),
        updated_by=shape["updated_by"] or "",
    )


def notice_of(shape: NotificationSchema, alert: str) -> Notification:
    """What an alert had to tell; what was sent does not come over the API, and is empty here."""
    return Notification(
        id=shape["id"],
        alert=alert,
        kind=AlertKind(shape["kind"]),
        subject=shape["subject"],
        job=shape["job"],
        body="",
        created_at=instant(shape["created_at"]),
        state=NotificationState(shape["state"]),
        attempts=shape["attempts"],
        tried_at=optional_instant(shape["tried_at"]),
        ended_at=optional_instant(shape["ended_at"]),
        status=shape["status"],
        error=shape["error"],
    )


def answer_of(shape: AnswerSchema) -> tuple[str, Answer]:
    """The id of a notice, and what its receiver said."""
    return shape["id"], Answer(shape["status"], shape["error"], shape["ms"])


class RemoteAlerts:
    """`cronflow.usecases.alerts.Alerts`, for those who manage them."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._pages = Pages(client, alert_of, lambda record: record.name)

    async def find(self, *, after: str = "", limit: int = 500) -> list[AlertRecord]:
        """By name, those behind `after`."""
        return await self._pages.page(path_of("alerts"), after or None, limit)

    async def get(self, name: str) -> AlertRecord:
        """Raises NotFound."""
        return understood(alert_of, await self._client.send(Call("GET", path_of("alerts", name))))

    async def notifications(
        self, name: str, *, before: tuple[datetime, str] | None = None, limit: int = 100
    ) -> list[Notification]:
        """What it had to tell, the newest first. Raises NotFound."""
        pages = Pages(
            self._client,
            lambda shape: notice_of(shape, name),
            lambda notification: (notification.created_at, notification.id),
        )
        return await pages.page(path_of("alerts", name, "notices"), before, limit)

    async def define(self, alert: Alert, *, by: str = "") -> tuple[AlertRecord, Result]:
        """Create it, or put it in the place of the one of this name. Raises InvalidInput, Conflict."""
        try:
            before = (await self.get(alert.name)).alert
        except NotFound:
            before = None
        call = Call("PUT", path_of("alerts", alert.name), body={**alert_document(alert)})
        record = understood(alert_of, await self._client.send(call))
        return record, "created" if before is None else "unchanged" if before == alert else "changed"

    async def delete(self, name: str, *, by: str = "") -> None:
        """Raises NotFound."""
        await self._client.send(Call("DELETE", path_of("alerts", name)))

    async def test(self, name: str, *, by: str = "") -> tuple[str, Answer]:
        """Have the API send one notice now. Raises NotFound, InvalidInput."""
        answer: Any = await self._client.send(Call("POST", path_of("alerts", name, "test")))
        return understood(answer_of, answer)
