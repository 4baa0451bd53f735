"""Messages to receivers: in order, again until they are accepted, and pings only while all is well."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import orjson

from cronflow.documents.notifications import MessageForm
from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alert_receivers import Email, Webhook, WebhookFormat
from cronflow.domain.alerts import Alert, Answer
from cronflow.domain.watch import WatchKind, WatchMessage, WatchStage
from cronflow.executors.notifications.summary import RunDetails, Tone, summary
from cronflow.watcher.receivers import MOST_WAITING, Receivers
from tests.watcher.watching import Inbox

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
BEAT = (AlertKind.HEARTBEAT,)
HOOK = Alert(name="hook", on=BEAT, webhook=Webhook("https://hooks.example.com/x"))
MAIL = Alert(name="mail", on=BEAT, email=Email(("ops@example.com",)))
PING = Alert(name="ping", on=BEAT, webhook=Webhook("https://ping.example.com/x", format=WebhookFormat.PING))
REFUSED = Answer(500, "answered 500", 1)


def a_message(stage: WatchStage = WatchStage.OPENED, at: datetime = NOW) -> WatchMessage:
    return WatchMessage(WatchKind.NO_LEADER, stage, at, NOW - MINUTE, f"no leader {at:%H:%M}")


async def test_every_receiver_gets_every_message_once_in_the_form_of_a_notification() -> None:
    inbox = Inbox()
    receivers = Receivers([HOOK, MAIL], inbox, "prod")
    for n in range(3):
        await receivers.send([a_message()] if n == 0 else [], NOW + n * MINUTE, well=False)
    assert sorted(name for name, _ in inbox.sent) == ["hook", "mail"]
    body = orjson.loads(inbox.sent[0][1].body)
    assert body.keys() <= MessageForm.__annotations__.keys()
    assert {name: body[name] for name in ("kind", "namespace", "level", "finding", "text")} == {
        "kind": "watcher",
        "namespace": "prod",
        "level": "critical",
        "finding": "no_leader",
        "text": "no leader 12:00",
    }


async def test_people_read_what_it_is_and_when_it_is_over() -> None:
    inbox = Inbox()
    await Receivers([HOOK], inbox, "prod").send([a_message(), a_message(WatchStage.CLOSED)], NOW, well=True)
    opened, closed = (summary(orjson.loads(one.body), RunDetails(), None) for _, one in inbox.sent)
    assert (opened.title, opened.tone) == ("The cluster has no leader", Tone.BAD)
    assert (closed.title, closed.tone) == ("Over: The cluster has no leader", Tone.GOOD)


async def test_a_message_that_is_not_accepted_waits_and_keeps_its_place_and_its_id() -> None:
    inbox = Inbox(REFUSED)
    receivers = Receivers([HOOK], inbox, "prod")
    await receivers.send([a_message(), a_message(WatchStage.CLOSED, NOW + MINUTE)], NOW, well=True)
    await receivers.send([], NOW + MINUTE, well=True)
    inbox.answer = Answer(200, None, 1)
    await receivers.send([], NOW + 2 * MINUTE, well=True)
    texts = [one.subject for _, one in inbox.sent]
    assert texts == ["no leader 12:00"] * 3 + ["no leader 12:01"]
    assert len({one.id for _, one in inbox.sent}) == 2


async def test_a_receiver_that_is_down_for_a_day_gets_only_what_is_younger_and_a_bounded_number() -> None:
    inbox = Inbox(REFUSED)
    receivers = Receivers([HOOK], inbox, "prod")
    for n in range(MOST_WAITING + 50):
        await receivers.send([a_message(at=NOW + n * MINUTE)], NOW + n * MINUTE, well=False)
    inbox.answer, inbox.sent = Answer(200, None, 1), []
    await receivers.send([], NOW + timedelta(hours=25), well=False)
    assert len(inbox.sent) == MOST_WAITING - 10
    assert inbox.sent[0][1].created_at == NOW + timedelta(hours=1)


async def test_a_final_refusal_is_not_sent_again() -> None:
    inbox = Inbox(Answer(550, "no such mailbox", 1, final=True))
    receivers = Receivers([MAIL], inbox, "prod")
    for _ in range(2):
        await receivers.send([a_message()] if not inbox.sent else [], NOW, well=False)
    assert len(inbox.sent) == 1


async def test_pings_stop_while_a_finding_is_open_and_say_once_that_it_opened() -> None:
    inbox = Inbox()
    receivers = Receivers([PING], inbox, "prod")
    await receivers.send([], NOW, well=True)
    await receivers.send([a_message()], NOW + MINUTE, well=False)
    await receivers.send([], NOW + 2 * MINUTE, well=False)
    await receivers.send([a_message(WatchStage.CLOSED)], NOW + 3 * MINUTE, well=True)
    # A notifier requests `/fail` for the kind `failed`.
    assert [one.kind for _, one in inbox.sent] == [AlertKind.HEARTBEAT, AlertKind.FAILED, AlertKind.HEARTBEAT]
