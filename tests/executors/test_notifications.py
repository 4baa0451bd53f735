"""What people get: e-mails through a real mail server, messages for Slack and Teams within their limits, and pings."""

from __future__ import annotations

import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import orjson
import pytest

from cronflow.auth.vault import Vault
from cronflow.backends.clock import SystemClock
from cronflow.documents.notifications import digest_of, failure_text, notification_of, recovery_text
from cronflow.documents.sample_notifications import sample
from cronflow.domain.access import Secret
from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alert_receivers import Email, Webhook, WebhookFormat
from cronflow.domain.alerts import Alert, AlertRecord, Answer, Failing, Notification
from cronflow.domain.mail_server import MailServer
from cronflow.domain.run import Outcome, RunState
from cronflow.domain.schedule.kinds import Cron
from cronflow.executors.notifications.mail_sender import MailSender
from cronflow.executors.notifications.notifier import Notifier, failed_ping
from cronflow.executors.notifications.slack import slack_message
from cronflow.executors.notifications.summary import RunDetails, summary
from cronflow.executors.notifications.teams import MOST_BYTES, teams_message
from cronflow.executors.webhook import HttpWebhookSender
from cronflow.ports import Backends, LogLine
from cronflow.testing.memory import memory_backends
from tests.contracts.builders import a_job, a_record, a_run
from tests.executors.mail import Mailbox, mail_server
from tests.executors.web import Server, answer
from tests.secured import Certificates, certificates

AT = datetime(2026, 11, 24, 1, 5, tzinfo=UTC)
EMAIL = Email(("ops@example.com", "night@example.com"))
MAIL = Alert(name="billing", on=(AlertKind.FAILED, AlertKind.RECOVERED), email=EMAIL)
VAULT = Vault([bytes(32)])
ERROR = "ValueError: no <rows> & more\nBcc: evil@example.com"
RUN = a_run(
    "billing-sums",
    AT,
    state=RunState.FAILED,
    outcome=Outcome.ERROR,
    attempt=4,
    max_attempts=4,
    error=ERROR,
    node="node-1#5f1c",
    started_at=AT,
    ended_at=AT + timedelta(seconds=2),
)


def record_of(alert: Alert) -> AlertRecord:
    return AlertRecord(alert=alert, since=AT, judged=AT, created_at=AT, updated_at=AT)


def failure(alert: Alert = MAIL, run: Any = RUN) -> Notification:
    text = failure_text(run)
    return notification_of(
        record_of(alert), AlertKind.FAILED, run.id, AT, "default", text, created_at=AT, job=run.job, run=run
    )


@pytest.fixture
async def backends() -> Backends:
    """The job, its last log lines, and the secrets of webhooks."""
    made = memory_backends(SystemClock())
    job = replace(a_job("billing-sums"), schedule=Cron("5 2 * * *", tz="Europe/Berlin"))
    await made.jobs.create(a_record(job=job, next_fire=AT + timedelta(days=1)))
    lines = [
        LogLine(run=RUN.id, job=RUN.job, fence=1, attempt=1, n=n, at=AT, level="info", text=f"line {n} <b>")
        for n in range(20)
    ]
    await made.logs.append(lines)
    return made


def notifier_of(backends: Backends, mail: MailSender | None = None, **fields: Any) -> Notifier:
    webhooks = HttpWebhookSender(backends.secrets, VAULT, SystemClock())
    wanted = {"public_url": "https://cron.example.com/", **fields}
    return Notifier(webhooks, mail, backends.jobs, backends.logs, SystemClock(), **wanted)


def server_at(mailbox: Mailbox, **fields: Any) -> MailServer:
    plain = MailServer("127.0.0.1", mailbox.port, tls=False, starttls=False, sender="cronflow@example.com")
    return replace(plain, **fields)


# ------------------------------------------------------------------------------------------------------------- e-mail


class TextOf(HTMLParser):
    """The visible text of a page, and the addresses that it would load something from."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.loads = "", list[str]()

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [str(value) for name, value in attrs if name in ("src", "background") or tag == "link"]


async def test_an_email_tells_a_person_what_failed_and_where_to_look(backends: Backends) -> None:
    async with mail_server() as mailbox:
        notification = failure()
        notifier = notifier_of(backends, MailSender(server_at(mailbox)))
        first = await notifier.send(MAIL, notification, AT)
        again = await notifier.send(MAIL, notification, AT + timedelta(minutes=1))
    assert (first.taken, first.status, again.taken) == (True, 250, True)
    message, repeated = mailbox.messages
    assert mailbox.recipients[0] == ["ops@example.com", "night@example.com"]
    assert message["Subject"] == "billing-sums failed: ValueError: no <rows> & more Bcc: evil@example.com"
    assert message["Bcc"] is None
    assert message["Message-ID"] == repeated["Message-ID"] == f"<{notification.id}@example.com>"
    assert message["Auto-Submitted"] == "auto-generated"
    assert (message["From"], message["X-CronFlow-Kind"]) == ("CronFlow <cronflow@example.com>", "failed")
    text, html = (message.get_body((kind,)) for kind in ("plain", "html"))
    assert text is not None
    assert html is not None
    page = TextOf()
    page.feed(html.get_content())
    assert page.loads == []
    for shown in (text.get_content(), page.text):
        for expected in (
            "Tue 2026-11-24 02:05:00 Europe/Berlin",
            "Wed 2026-11-25 02:05:00 Europe/Berlin",
            "4 of 4",
            "node-1",
            "no <rows> & more",
            "line 19 <b>",
            "line 10 <b>",
            f"cronflow runs show {RUN.id}",
            "alert billing of cluster default",
        ):
            assert expected in shown
        assert "line 9 " not in shown
    assert f"https://cron.example.com/runs/{RUN.id}" in text.get_content()
    assert f"href='https://cron.example.com/runs/{RUN.id}'" in html.get_content()


async def test_a_recovery_and_the_digests_of_a_group_are_shown_in_one_thread(backends: Backends) -> None:
    good = a_run("billing-sums", AT + timedelta(days=1), state=RunState.SUCCEEDED, ended_at=AT + timedelta(days=1))
    failing = Failing("billing", RUN.job, RUN.id, RUN.fire_at, AT)
    record = record_of(MAIL)
    recovery = notification_of(
        record, AlertKind.RECOVERED, RUN.id, AT, "prod", recovery_text(failing, good), created_at=AT, job=RUN.job
    )
    digests = [digest_of(record, n, "job=billing-sums", [failure(), recovery], AT) for n in (1, 2)]
    async with mail_server() as mailbox:
        notifier = notifier_of(backends, MailSender(server_at(mailbox)), namespace="prod")
        for one in (failure(), recovery, *digests):
            assert (await notifier.send(MAIL, one, AT)).taken
    failed, recovered, *combined = mailbox.messages
    assert failed["References"] is None
    assert recovered["In-Reply-To"] == recovered["References"] == failed["Message-ID"]
    assert recovered["Subject"] == "[prod] billing-sums recovered"
    assert combined[0]["References"] == combined[1]["References"]
    assert combined[0]["Message-ID"] != combined[1]["Message-ID"]
    assert combined[0]["Subject"] == "[prod] billing-sums: 1 failed, 1 recovered"
    body = combined[0].get_body(("plain",))
    assert body is not None
    assert "- 02:05:00 failed: billing-sums@" in body.get_content()


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("pem"))


def contexts(pem: Certificates) -> tuple[ssl.SSLContext, ssl.SSLContext, ssl.SSLContext]:
    """Of the server, of a client that trusts it, and of one that does not."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(pem.server)
    return server, ssl.create_default_context(cafile=pem.authority), ssl.create_default_context(cafile=pem.another)


async def test_mail_is_encrypted_and_the_server_verified_before_the_login(
    backends: Backends, pem: Certificates
) -> None:
    server, trusting, wary = contexts(pem)
    known = {"user": "cronflow", "password": "secret word"}
    async with mail_server(starttls=server, login=True) as mailbox:
        wanted = server_at(mailbox, starttls=True, **known)
        assert (await notifier_of(backends, MailSender(wanted, trusting)).send(MAIL, failure(), AT)).taken
        assert (mailbox.encrypted, mailbox.logins) == ([True], ["cronflow"])
        wrong = MailSender(replace(wanted, password="another"), trusting)
        refused = await notifier_of(backends, wrong).send(MAIL, failure(), AT)
        assert (refused.taken, refused.status, refused.final) == (False, 535, False), refused
        assert "refused the login" in (refused.error or "")
        assert "another" not in (refused.error or "")
        asked = len(mailbox.logins)
        forged = await notifier_of(backends, MailSender(wanted, wary)).send(MAIL, failure(), AT)
        assert (forged.taken, forged.final) == (False, False)
        assert len(mailbox.logins) == asked
    async with mail_server(tls=server) as mailbox:
        wanted = server_at(mailbox, tls=True)
        assert (await notifier_of(backends, MailSender(wanted, trusting)).send(MAIL, failure(), AT)).taken
    async with mail_server() as mailbox:
        stripped = await notifier_of(backends, MailSender(server_at(mailbox, starttls=True, **known), trusting)).send(
            MAIL, failure(), AT
        )
        assert (stripped.taken, mailbox.logins, mailbox.messages) == (False, [], [])


async def test_a_refusal_for_good_is_final_and_a_temporary_one_is_not(backends: Backends) -> None:
    async with mail_server() as mailbox:
        notifier = notifier_of(backends, MailSender(server_at(mailbox)))

        async def sent() -> Answer:
            return await notifier.send(MAIL, failure(), AT)

        mailbox.replies = ["451 try later", "554 spam"]
        later, never = await sent(), await sent()
        assert (later.taken, later.status, later.final) == (False, 451, False)
        assert (never.taken, never.status, never.final) == (False, 554, True)
        assert "answered 554 spam" in (never.error or "")
        mailbox.refused = {"night@example.com": "550 no such user"}
        partly = await sent()
        assert (partly.taken, partly.partly) == (True, True)
        assert "night@example.com: 550 no such user" in (partly.error or "")
        mailbox.refused = {"night@example.com": "450 greylisted"}
        assert not (await sent()).taken
        mailbox.refused = dict.fromkeys(EMAIL.to, "550 no such user")
        nobody = await sent()
        assert (nobody.taken, nobody.final) == (False, True)
        assert mailbox.recipients == [["ops@example.com"]] * 2
    gone = await sent()
    assert (gone.taken, gone.status, gone.final) == (False, None, False)
    assert f"127.0.0.1:{mailbox.port} cannot be used" in (gone.error or "")
    without = await notifier_of(backends).send(MAIL, failure(), AT)
    assert "set CRONFLOW_SMTP_URL" in (without.error or "")


# ---------------------------------------------------------------------------------------------------- Slack and Teams


async def test_chats_and_pings_have_secret_addresses_and_forms_of_their_own(backends: Backends, server: Server) -> None:
    for path in ("/slack/T0/B0/x", "/teams", "/ping/uuid", "/ping/uuid/fail"):
        server.answers[path] = answer(200)
    for name, path in (("SLACK", "/slack/T0/B0/x"), ("TEAMS", "/teams"), ("PING", "/ping/uuid")):
        sealed = VAULT.seal(name, server.url + path + "\n")
        await backends.secrets.put(Secret(name=name, sealed=sealed, updated_at=AT, updated_by=""))
    notifier = notifier_of(backends)

    async def sent(format: WebhookFormat, secret: str, kind: AlertKind = AlertKind.FAILED) -> Answer:  # noqa: A002
        alert = Alert(
            name="a", on=(kind,), jobs=("billing-sums",), webhook=Webhook(f"${{secret:{secret}}}", format=format)
        )
        return await notifier.send(alert, replace(failure(alert), kind=kind), AT)

    assert (await sent(WebhookFormat.SLACK, "SLACK")).taken
    assert (await sent(WebhookFormat.TEAMS, "TEAMS")).taken
    assert (await sent(WebhookFormat.PING, "PING")).taken
    assert (await sent(WebhookFormat.PING, "PING", AlertKind.SUCCEEDED)).taken
    slack, teams, fail, ping = server.requests
    assert orjson.loads(slack.body)["blocks"][0]["type"] == "header"
    assert orjson.loads(teams.body)["attachments"][0]["content"]["type"] == "AdaptiveCard"
    assert (fail.path, ping.path) == ("/ping/uuid/fail", "/ping/uuid")
    assert ping.body.decode().startswith("billing-sums@")
    missing = await sent(WebhookFormat.SLACK, "OTHER")
    assert "cronflow secrets set OTHER" in (missing.error or "")
    sealed = VAULT.seal("DOWN", "http://127.0.0.1:1/services/T0/confidential")
    await backends.secrets.put(Secret(name="DOWN", sealed=sealed, updated_at=AT, updated_by=""))
    down = await sent(WebhookFormat.SLACK, "DOWN")
    assert "cannot be reached" in (down.error or "")
    assert "confidential" not in (down.error or "")


def test_a_failing_ping_keeps_the_query_of_its_address() -> None:
    assert failed_ping("https://hc.example/uuid") == "https://hc.example/uuid/fail"
    assert failed_ping("https://hc.example/uuid/?rid=1") == "https://hc.example/uuid/fail?rid=1"


def everything(text: str) -> list[dict[str, Any]]:
    """Bodies of all kinds and of a digest, with the text of a job in every place that can have one."""
    run = replace(RUN, error=text, node=text)
    alert = replace(MAIL, on=tuple(kind for kind in AlertKind if kind is not AlertKind.SUCCEEDED))
    many = [failure(alert, run)] * 1000
    made = [
        failure(alert, run),
        digest_of(record_of(alert), 1, text, many, AT),
        digest_of(record_of(alert), 1, "", many[:2], AT),
    ]
    made += [sample(alert, kind, "msg_test_1", AT, "default") for kind in AlertKind]
    return [orjson.loads(one.body) for one in made]


HOSTILE = ["x", "<!channel> & <@U1|x> ``` *b* [a](http://evil)", "é漢🙂" * 3000, "a\n" * 4000, "&" * 9000]


@pytest.mark.parametrize("text", HOSTILE, ids=["short", "markup", "wide", "lines", "entities"])
def test_every_message_keeps_the_limits_of_slack_and_teams_and_is_escaped(text: str) -> None:
    details = RunDetails([text] * 20, AT, "Europe/Berlin")
    for body in everything(text):
        found = summary(body, details, "https://cron.example.com")
        check_slack(slack_message(found))
        check_teams(teams_message(found))
        slack, teams = slack_message(found), orjson.dumps(teams_message(found)).decode()
        # The header is plain text, in which nothing has a meaning.
        shown = orjson.dumps([slack["text"], slack["blocks"][1:]]).decode()
        assert "<!channel>" not in shown
        assert "<@U1" not in shown
        assert "](http" not in teams


def check_slack(message: dict[str, Any]) -> None:
    """The published limits of Block Kit for the blocks in use."""
    blocks = message["blocks"]
    assert 1 <= len(blocks) <= 50
    assert len(message["text"]) <= 4000
    for block in blocks:
        match block["type"]:
            case "header":
                assert block["text"]["type"] == "plain_text"
                assert 1 <= len(block["text"]["text"]) <= 150
            case "section":
                assert ("text" in block) != ("fields" in block)
                assert len(block.get("fields", [])) <= 10
                assert all(1 <= len(one["text"]) <= 2000 for one in block.get("fields", []))
                assert 1 <= len(block.get("text", {"text": "x"})["text"]) <= 3000
            case "actions":
                [button] = block["elements"]
                assert len(button["text"]["text"]) <= 75
                assert len(button["url"]) <= 3000
            case "context":
                assert 1 <= len(block["elements"]) <= 10
            case other:
                raise AssertionError(other)


TEAMS_KEYS = {
    "TextBlock": {"type", "text", "wrap", "size", "weight", "color", "fontType", "isSubtle", "separator"},
    "FactSet": {"type", "facts"},
}
TEAMS_VALUES = {
    "size": {"small", "large"},
    "weight": {"bolder"},
    "color": {"attention", "warning", "good", "accent"},
    "fontType": {"monospace"},
}
"""The elements in use and their values, as in the schema of Adaptive Cards 1.4."""


def check_teams(message: dict[str, Any]) -> None:
    assert len(orjson.dumps(message)) <= MOST_BYTES
    assert message["type"] == "message"
    [attachment] = message["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card = attachment["content"]
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    for element in card["body"]:
        assert element.keys() <= TEAMS_KEYS[element["type"]]
        assert all(element[key] in values for key, values in TEAMS_VALUES.items() if key in element)
        assert element.get("text", "x")
        assert all(fact.keys() == {"title", "value"} for fact in element.get("facts", []))
    assert all(action.keys() == {"type", "title", "url"} for action in card.get("actions", []))
