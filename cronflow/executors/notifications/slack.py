"""Notifications for Slack: a message of Block Kit for an incoming webhook.

Rule: it keeps within the limits of Block Kit. Text from jobs is escaped, so it cannot mention a channel or a person.
"""

from __future__ import annotations

from typing import Any

from cronflow.executors.notifications.summary import NotificationSummary, Tone

MOST_OF_HEADER = 150
MOST_OF_SECTION = 3000
MOST_OF_FIELD = 2000
MOST_FIELDS = 10
MOST_OF_URL = 3000
SIGNS = {Tone.BAD: "🔴", Tone.WARNING: "🟠", Tone.GOOD: "🟢", Tone.PLAIN: "🔵"}


def slack_message(summary: NotificationSummary) -> dict[str, Any]:
    """The payload. Its `text` is what notifications on a phone show."""
    title = f"{SIGNS[summary.tone]} {summary.title}"
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": cut(title, MOST_OF_HEADER), "emoji": True}},
        _section(_escaped(summary.sentence, MOST_OF_SECTION)),
    ]
    fields = [_mrkdwn(_escaped(value, MOST_OF_FIELD, f"*{label}*\n")) for label, value in summary.facts[:MOST_FIELDS]]
    if fields:
        blocks.append({"type": "section", "fields": fields})
    blocks += [_code(text) for text in (summary.error, "\n".join(summary.log_lines)) if text]
    if summary.examples:
        blocks.append(_section(_escaped("\n".join(f"• {one}" for one in summary.examples), MOST_OF_SECTION)))
    if summary.link is not None and len(summary.link[1]) <= MOST_OF_URL:
        label, url = summary.link
        button = {"type": "button", "text": {"type": "plain_text", "text": label}, "url": url}
        blocks.append({"type": "actions", "elements": [button]})
    foot = " · ".join([*(f"`{command}`" for command in summary.commands), summary.origin])
    blocks.append({"type": "context", "elements": [_mrkdwn(_escaped(foot, MOST_OF_FIELD))]})
    return {"text": _escaped(title, MOST_OF_SECTION), "blocks": blocks}


def cut(text: str, most: int) -> str:
    """At most so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _escaped(text: str, most: int, before: str = "", after: str = "") -> str:
    """Escaped, and cut so that no entity is cut in two."""
    room = most - len(before) - len(after)
    shown = _escape(text[: room + 1])
    if len(shown) > room:
        kept, length = [], 1
        for one in map(_escape, text[: room + 1]):
            length += len(one)
            if length > room:
                break
            kept.append(one)
        shown = "".join(kept) + "…"
    return before + shown + after


def _mrkdwn(text: str) -> dict[str, Any]:
    # `verbatim`: Slack makes no links and mentions of names in it.
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": _mrkdwn(text)}


def _code(text: str) -> dict[str, Any]:
    # Three backticks would end the block.
    return _section(_escaped(text.replace("```", "'''"), MOST_OF_SECTION, "```\n", "\n```"))
