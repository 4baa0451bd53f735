"""The executors `shell` and `http` of a Dkron job as `run`. Other executors are refused."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from cronflow.domain.durations import format_duration
from cronflow.domain.limits import format_size
from cronflow.importers.job_draft import LONG_TIMEOUT, JobDraft, Refused
from cronflow.importers.robfig import go_duration

_SHELL = {"command", "shell", "env", "cwd", "timeout", "mem_limit", "su"}
_HTTP = {"method", "url", "headers", "body", "timeout", "expectCode", "debug"}
_MEMORY = re.compile(r"([0-9.]+)\s*([KMGT]?B?)", re.IGNORECASE)


def read_executor(draft: JobDraft, executor: str, config: Mapping[str, str]) -> None:
    """Set `run` and `timeout`. Raises Refused."""
    if executor == "shell":
        _shell(draft, config)
    elif executor == "http":
        _http(draft, config)
    else:
        what = f"it uses the executor {executor!r}" if executor else "it has no executor"
        raise Refused(what, "write run: yourself, for example with a shell command or an HTTP request")


def _shell(draft: JobDraft, config: Mapping[str, str]) -> None:
    command = config.get("command", "").strip()
    if not command:
        raise Refused("its command is missing", "add executor_config.command")
    run = _command(draft, command, shell=config.get("shell", "").lower() in ("1", "t", "true"))
    if config.get("cwd"):
        run["cwd"] = config["cwd"]
    env = {}
    for pair in filter(None, config.get("env", "").split(",")):
        name, sign, value = pair.partition("=")
        if not sign:
            raise Refused(f"env has {pair!r}, which is not NAME=VALUE", "correct executor_config.env")
        env[name.strip()] = value
    if env:
        run["env"] = env
        draft.note("A password belongs in a secret: ${secret:NAME}.", "run")
    if config.get("su"):
        user, _, group = config["su"].partition(":")
        run["run_as"] = user
        if group:
            draft.note(f"The group {group} is left out; the command has those of {user}.", "run")
    if config.get("mem_limit"):
        run["limits"] = {"memory": _memory(config["mem_limit"])}
        what = "mem_limit counted the memory in use of all its processes; this is the address space of each."
        draft.note(what, "run")
    draft.set("run", run, "Nodes run commands with ALLOW_SHELL=true.")
    if config.get("timeout"):
        draft.set("timeout", format_duration(go_duration(config["timeout"])))
    else:
        draft.set("timeout", LONG_TIMEOUT, "Dkron sets no limit. CronFlow needs one: how long may a run take?")
    draft.left_out(
        "Keys of executor_config that were left out",
        [key for key, value in config.items() if value and key not in _SHELL],
    )


def _command(draft: JobDraft, command: str, *, shell: bool) -> dict[str, Any]:
    if shell:
        return {"shell": command}
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise Refused(f"its command cannot be split into words: {error}", "correct its quotes") from None
    if any(sign in command for sign in ("$", "`", "|", "&&", ">")):
        draft.note(
            "Dkron runs it without a shell, so | and the like are arguments. Write shell: if it is meant.", "run"
        )
    return {"argv": words}


def _http(draft: JobDraft, config: Mapping[str, str]) -> None:
    if config.get("expectBody"):
        remedy = "let the service answer with another status, or send the request from a program"
        raise Refused("it checks the body of the response, and CronFlow checks the status", remedy)
    request: dict[str, Any] = {"method": config.get("method", "GET").upper(), "url": config.get("url", "")}
    headers = _headers(config.get("headers", ""))
    if headers:
        request["headers"] = headers
    if config.get("body"):
        request["body"] = config["body"]
    codes = [code.strip() for code in config.get("expectCode", "").split(",") if code.strip()]
    if not all(code.isdigit() for code in codes):
        raise Refused(f"expectCode is {config['expectCode']!r}", "write statuses such as 200,206")
    if codes:
        request["expect"] = [int(code) for code in codes]
        draft.set("run", {"http": request})
    else:
        draft.set(
            "run", {"http": request}, "Without expectCode, Dkron takes every response as a success; CronFlow 2xx."
        )
    seconds = config.get("timeout") or "30"
    if not seconds.isdigit():
        raise Refused(f"timeout is {seconds!r}", "write seconds")
    draft.set("timeout", f"{seconds}s")
    draft.left_out(
        "Keys of executor_config that were left out",
        [key for key, value in config.items() if value and key not in _HTTP],
    )


def _headers(text: str) -> dict[str, str]:
    try:
        lines = json.loads(text) if text else []
        pairs = [str(line).partition(":") for line in lines if line]
    except (json.JSONDecodeError, TypeError):
        raise Refused("headers is not a JSON list", 'write it like ["Content-Type: application/json"]') from None
    return {name.strip(): value.strip() for name, _, value in pairs}


def _memory(text: str) -> str:
    found = _MEMORY.fullmatch(text.strip())
    if found is None:
        raise Refused(f"mem_limit is {text!r}", "write it like 512MB")
    try:
        number = float(found[1])
    except ValueError:
        raise Refused(f"mem_limit is {text!r}", "write it like 512MB") from None
    return format_size(int(number * 1024 ** "BKMGT".index((found[2].upper() or "B")[0])))
