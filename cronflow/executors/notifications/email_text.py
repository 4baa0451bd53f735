"""Notifications as e-mail: a message with a text part and an HTML part, made to be read on a phone at night.

Rules: the id of a message follows from its notification, so a repeated delivery is recognizable, and what belongs
together refers to a common id, so mail programs show it together. No text from a job reaches a header with a line end,
or the HTML unescaped. The HTML loads nothing from elsewhere.
"""

from __future__ import annotations

import hashlib
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from html import escape

from cronflow.domain.alert_kinds import DEAD_LETTER_KINDS, AlertKind
from cronflow.domain.alerts import Alert, Notification, notification_id
from cronflow.executors.notifications.summary import NotificationSummary, Tone, one_line

MOST_OF_SUBJECT = 140
# Seven bits pass every server, and a subject stays on one line.
POLICY = SMTP.clone(cte_type="7bit", max_line_length=200)
COLORS = {Tone.BAD: "#c62828", Tone.WARNING: "#b26a00", Tone.GOOD: "#2e7d32", Tone.PLAIN: "#1565c0"}
DARK_COLORS = {Tone.BAD: "#ff8a80", Tone.WARNING: "#ffb74d", Tone.GOOD: "#81c784", Tone.PLAIN: "#90caf9"}
STYLE = """
body { margin: 0; padding: 16px; background: #f4f5f7; color: #1c1e21; font: 16px/1.5 -apple-system, 'Segoe UI', Roboto,
  Helvetica, Arial, sans-serif; }
.card { max-width: 600px; margin: 0 auto; padding: 20px; background: #ffffff; border-radius: 8px;
  border-top: 4px solid TONE; }
h1 { margin: 0 0 8px; font-size: 20px; line-height: 1.3; color: TONE; overflow-wrap: anywhere; }
p { margin: 0 0 16px; overflow-wrap: anywhere; }
h2 { margin: 16px 0 4px; font-size: 14px; color: #5f6368; }
table { border-collapse: collapse; margin: 0 0 16px; }
td { padding: 2px 12px 2px 0; vertical-align: top; overflow-wrap: anywhere; }
td:first-child { color: #5f6368; white-space: nowrap; }
pre { margin: 0 0 16px; padding: 10px 12px; background: #f1f3f4; border-radius: 6px; font: 13px/1.45 ui-monospace,
  Menlo, Consolas, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
ul { margin: 0 0 16px; padding-left: 20px; overflow-wrap: anywhere; }
.button { display: inline-block; padding: 12px 20px; border-radius: 6px; background: #1565c0; color: #ffffff;
  text-decoration: none; font-weight: 600; }
.foot { margin: 16px 0 0; font-size: 13px; color: #5f6368; }
@media (prefers-color-scheme: dark) {
  body { background: #121315; color: #e8eaed; }
  .card { background: #1e2023; border-top-color: NIGHT; }
  h1 { color: NIGHT; }
  h2, td:first-child, .foot { color: #a8adb3; }
  pre { background: #2a2d31; }
  .button { background: #90caf9; color: #0b1a2b; }
}
"""


def email_message(
    alert: Alert, notification: Notification, summary: NotificationSummary, *, sender: str, namespace: str
) -> EmailMessage:
    """The message. Its recipients are those of the alert."""
    assert alert.email is not None
    domain = sender.rpartition("@")[2]
    cluster = "" if namespace == "default" else f"[{namespace}] "
    message = EmailMessage(policy=POLICY)
    message["From"] = f"CronFlow <{sender}>"
    message["To"] = ", ".join(alert.email.to)
    message["Subject"] = one_line(f"{cluster}{summary.title}", MOST_OF_SUBJECT)
    message["Date"] = format_datetime(notification.created_at)
    message["Message-ID"] = f"<{notification.id}@{domain}>"
    if references := _references(alert, notification):
        message["In-Reply-To"] = " ".join(f"<{one}@{domain}>" for one in references)
        message["References"] = " ".join(f"<{one}@{domain}>" for one in references)
    message["Auto-Submitted"] = "auto-generated"
    message["X-CronFlow-Alert"] = alert.name
    message["X-CronFlow-Kind"] = notification.kind.value
    message.set_content(plain_text(summary))
    message.add_alternative(html(summary), subtype="html")
    return message


def _references(alert: Alert, notification: Notification) -> list[str]:
    """A recovery refers to the failure, which has one of two kinds; digests of a group to an id of the group."""
    if notification.group is not None:
        named = hashlib.sha256(f"{alert.name}\n{notification.group}".encode()).hexdigest()[:32]
        return [f"group_{named}"]
    if notification.kind is AlertKind.RECOVERED:
        reported = [kind for kind in alert.on if kind in DEAD_LETTER_KINDS]
        return [notification_id(alert.name, kind, notification.subject) for kind in reported]
    return []


def plain_text(summary: NotificationSummary) -> str:
    """The text part."""
    width = max((len(label) for label, _ in summary.facts), default=0) + 2
    parts = [summary.title, summary.sentence if summary.sentence != summary.title else ""]
    parts.append("\n".join(f"{label + ':':<{width}}{value}" for label, value in summary.facts))
    if summary.error:
        parts.append("Error:\n" + _indented(summary.error.splitlines()))
    if summary.log_lines:
        parts.append("Last log lines:\n" + _indented(summary.log_lines))
    if summary.examples:
        parts.append("\n".join(f"- {one}" for one in summary.examples))
    more = [f"{summary.link[0]}: {summary.link[1]}"] if summary.link else []
    parts.append("\n".join([*more, *(f"More: {command}" for command in summary.commands)]))
    parts.append(f"-- \n{summary.origin}")
    return "\n\n".join(part for part in parts if part) + "\n"


def _indented(lines: tuple[str, ...] | list[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)


def html(summary: NotificationSummary) -> str:
    """The HTML part, which mail programs also show in dark mode."""
    style = STYLE.replace("TONE", COLORS[summary.tone]).replace("NIGHT", DARK_COLORS[summary.tone])
    parts = [f"<h1>{escape(summary.title)}</h1>"]
    if summary.sentence != summary.title:
        parts.append(f"<p>{escape(summary.sentence)}</p>")
    rows = "".join(f"<tr><td>{escape(label)}</td><td>{escape(value)}</td></tr>" for label, value in summary.facts)
    parts.append(f"<table role='presentation'>{rows}</table>" if rows else "")
    if summary.error:
        parts.append(f"<h2>Error</h2><pre>{escape(summary.error)}</pre>")
    if summary.log_lines:
        lines = escape("\n".join(summary.log_lines))
        parts.append(f"<h2>Last log lines</h2><pre>{lines}</pre>")
    if summary.examples:
        parts.append("<ul>" + "".join(f"<li>{escape(one)}</li>" for one in summary.examples) + "</ul>")
    if summary.link is not None:
        label, url = summary.link
        parts.append(f"<p><a class='button' href='{escape(url)}'>{escape(label)}</a></p>")
    parts += [f"<pre>{escape(command)}</pre>" for command in summary.commands]
    parts.append(f"<p class='foot'>{escape(summary.origin)}</p>")
    head = (
        "<meta charset='utf-8'><meta name='viewport' content='width=device-width, initial-scale=1'>"
        "<meta name='color-scheme' content='light dark'><meta name='supported-color-schemes' content='light dark'>"
        f"<title>{escape(summary.title)}</title><style>{style}</style>"
    )
    return (
        f"<!doctype html>\n<html lang='en'><head>{head}</head><body><div class='card'>\n"
        + "\n".join(part for part in parts if part)
        + "\n</div></body></html>\n"
    )
