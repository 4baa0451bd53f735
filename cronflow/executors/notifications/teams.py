"""Notifications for Microsoft Teams: an Adaptive Card for the webhook of a workflow.

Rule: the card uses only elements of version 1.4, which Teams shows everywhere, and is below 28 KB, which a workflow
accepts. Text from jobs has no Markdown in it.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from cronflow.executors.notifications.slack import cut
from cronflow.executors.notifications.summary import NotificationSummary, Tone

MOST_BYTES = 27_000
MOST_OF_TEXT = 4000
COLORS = {Tone.BAD: "attention", Tone.WARNING: "warning", Tone.GOOD: "good", Tone.PLAIN: "accent"}
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+!|~<>])")
_LIST = re.compile(r"^(\s*\d+)\.|^(\s*)-", re.MULTILINE)


def teams_message(summary: NotificationSummary) -> dict[str, Any]:
    """The payload. What is too large for Teams is cut from the longest texts first."""
    most = MOST_OF_TEXT
    while True:
        made = _message(summary, most)
        if len(orjson.dumps(made)) <= MOST_BYTES or most < 100:
            return made
        most //= 2


def _message(summary: NotificationSummary, most: int) -> dict[str, Any]:
    body: list[dict[str, Any]] = [
        _text(summary.title, most, size="large", weight="bolder", color=COLORS[summary.tone]),
        _text(summary.sentence, most),
    ]
    if summary.facts:
        facts = [{"title": label, "value": _plain(cut(value, most))} for label, value in summary.facts]
        body.append({"type": "FactSet", "facts": facts})
    texts = (summary.error, "\n\n".join(summary.log_lines))
    body += [_text(text, most, fontType="monospace", size="small") for text in texts if text]
    if summary.examples:
        body.append(_text("\n\n".join(summary.examples), most))
    foot = " · ".join([*summary.commands, summary.origin])
    body.append(_text(foot, most, isSubtle=True, size="small", separator=True))
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "fallbackText": _plain(cut(summary.title, most)),
        "msteams": {"width": "Full"},
        "body": body,
    }
    if summary.link is not None:
        label, url = summary.link
        card["actions"] = [{"type": "Action.OpenUrl", "title": label, "url": url}]
    content = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [content]}


def _text(text: str, most: int, **style: Any) -> dict[str, Any]:
    return {"type": "TextBlock", "text": _plain(cut(text, most)), "wrap": True, **style}


def _plain(text: str) -> str:
    """The text with its Markdown escaped."""
    escaped = _MARKDOWN.sub(r"\\\1", text)
    return _LIST.sub(lambda found: f"{found[1]}\\." if found[1] is not None else f"{found[2]}\\-", escaped)
