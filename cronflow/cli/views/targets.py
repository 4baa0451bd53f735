"""What a job runs, in one line for people. Passwords in addresses are left out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

_USER_INFO = re.compile(r"(?<=://)[^/@\s]+@")


def target_text(run: Mapping[str, Any]) -> str:
    """For example `POST https://pay.example.com/charge`."""
    match run:
        case {"python": function, **more}:
            return f"{function}, in a process of its own" if more.get("process") else str(function)
        case {"shell": line}:
            return str(line).strip()
        case {"argv": words}:
            return shlex.join(words)
        case {"http": request}:
            return f"{request['method']} {_USER_INFO.sub('', request['url'])}"
        case {"amqp": message}:
            return _message_text(message)
        case {"system": name}:
            return f"the {name} of CronFlow"
    return ""  # of a newer version


def _message_text(message: Mapping[str, Any]) -> str:
    exchange, key = message["exchange"], message["routing_key"]
    to = f"queue {key}"
    if exchange:
        to = f"exchange {exchange} with key {key}" if key else f"exchange {exchange}"
    text = f"a message to {to} at {_USER_INFO.sub('', message['url'])}"
    return f"{text}, and waits for the reply" if message["reply"] is not None else text
