"""Secrets of jobs: filled in at the attempt, in every place that may name one, and hidden in all that comes back."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from cronflow import App, Context, PermanentError
from cronflow.auth.vault import CannotOpen, Vault
from cronflow.bootstrap.backends import open_backends
from cronflow.domain.access import Secret
from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import CommandTarget, HttpTarget, PythonTarget, Target
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.executors.by_target import Executors
from cronflow.executors.command import CommandExecutor
from cronflow.executors.http import HttpExecutor
from cronflow.executors.python import PythonExecutor, PythonTargets
from cronflow.executors.secrets import WithSecrets
from cronflow.ports import Executor, SecretStore
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends, memory_backends
from cronflow.usecases import UseCases
from tests.executors import Lines, assignment
from tests.executors.web import Server, answer

KEY, OTHER_KEY = b"01234567890123456789012345678901", b"another key of thirty-two bytes."
TOKEN = "s3cr3t-token"
PEM = "-----BEGIN KEY-----\nMIIBOgIBAAJBAKj34Gkx\nqwertyuiop==\n-----END KEY-----"

app = App("secrets")


@app.job()
def echo(ctx: Context, token: str, more: dict[str, Any] | None = None) -> object:
    """Tells all that it knows."""
    ctx.log.info("the token is", token=token)
    return {"token": token, token: [token, {"more": more}], "n": 5}


@app.job()
def fail(ctx: Context, token: str) -> None:
    """Fails with it."""
    raise PermanentError(f"cannot log in with {token!r}")


@app.job()
def crash(ctx: Context, token: str) -> None:
    """Crashes with it, in a traceback."""
    raise ValueError({"token": token})


@pytest.fixture
def memory() -> MemoryBackends:
    return memory_backends(FakeClock())


def around(store: SecretStore, vault: Vault | None) -> WithSecrets:
    """The executor of a node."""
    by_target: dict[type[Target], Executor] = {
        CommandTarget: CommandExecutor(True),
        HttpTarget: HttpExecutor(),
        PythonTarget: PythonExecutor(PythonTargets([app])),
    }
    return WithSecrets(Executors(by_target), store, vault)


@pytest.fixture
async def executor(memory: MemoryBackends) -> AsyncIterator[WithSecrets]:
    service = UseCases(memory, FakeClock(), vault=Vault([KEY]))
    await service.secrets.set("token", TOKEN)
    await service.secrets.set("PEM", PEM)
    async with around(memory.secrets, Vault([KEY])) as executor:
        yield executor


def ref(function: Any) -> str:
    return f"{function.__module__}:{function.__qualname__}"


# ---------------------------------------------------------------------------------------------------------- filled in


async def test_headers_and_body_of_a_request_are_filled(executor: WithSecrets, server: Server) -> None:
    server.answers["/hook"] = answer(400, f"{TOKEN} is wrong")
    headers = {"Authorization": "Bearer ${secret:token}", "X-Plain": "$token"}
    target = HttpTarget(f"{server.url}/hook", "POST", headers, body='{"t": "${secret:token}", "u": "${secret:token}"}')
    lines = Lines()
    attempt_result = await executor.run(assignment(target), "n1", lines)
    [request] = server.requests
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert request.headers["x-plain"] == "$token"
    assert request.body == f'{{"t": "{TOKEN}", "u": "{TOKEN}"}}'.encode()
    assert attempt_result.outcome is Outcome.PERMANENT
    assert any("*** is wrong" in text for _, text in lines.all)
    assert TOKEN not in repr([lines.all, attempt_result])


async def test_the_environment_of_a_command_is_filled_and_its_output_masked(executor: WithSecrets) -> None:
    target = CommandTarget('echo "$T"; echo "got $T" >&2; exit 3', env={"T": "${secret:token}"})
    lines = Lines()
    attempt_result = await executor.run(assignment(target), "n1", lines)
    assert lines.all == [("info", "***"), ("warn", "got ***")]
    assert attempt_result == AttemptResult(Outcome.ERROR, error="exit code 3: got ***")


async def test_the_lines_of_a_longer_secret_are_masked_one_by_one(executor: WithSecrets) -> None:
    lines = Lines()
    await executor.run(assignment(CommandTarget('echo "$K"', env={"K": "${secret:PEM}"})), "n1", lines)
    assert lines.of("info") == ["***"] * 4


async def test_arguments_of_a_function_are_filled_at_every_depth_and_its_result_masked(executor: WithSecrets) -> None:
    args = {"token": "${secret:token}", "more": {"list": ["a ${secret:token} b", 1, None]}}
    lines = Lines()
    attempt_result = await executor.run(assignment(PythonTarget(ref(echo), args)), "n1", lines)
    assert attempt_result.outcome is Outcome.OK
    assert attempt_result.result == {
        "token": "***",
        "***": ["***", {"more": {"list": ["a *** b", 1, None]}}],
        "n": 5,
    }
    assert lines.of("info") == ["the token is token=***"]


@pytest.mark.parametrize("function", [fail, crash])
async def test_errors_and_tracebacks_are_masked(executor: WithSecrets, function: Any) -> None:
    for name in ("token", "PEM"):
        target = PythonTarget(ref(function), {"token": f"${{secret:{name}}}"})
        attempt_result = await executor.run(assignment(target), "n1", Lines())
        assert "***" in (attempt_result.error or "")
        assert not any(part in (attempt_result.error or "") for part in (TOKEN, "MIIBOgIBAAJBAKj34Gkx"))


async def test_the_arguments_of_one_run_are_text_and_stay_text(executor: WithSecrets) -> None:
    given = {"token": "${secret:PEM}"}
    one = assignment(PythonTarget(ref(echo), {"token": "${secret:token}"}), args=given)
    attempt_result = await executor.run(one, "n1", Lines())
    assert isinstance(attempt_result.result, dict)
    assert attempt_result.result["token"] == "${secret:PEM}"


async def test_the_job_of_the_assignment_keeps_its_reference(executor: WithSecrets) -> None:
    one = assignment(CommandTarget("true", env={"T": "${secret:token}"}))
    await executor.run(one, "n1", Lines())
    assert one.job.target == CommandTarget("true", env={"T": "${secret:token}"})


async def test_a_job_without_secrets_reads_none(executor: WithSecrets, memory: MemoryBackends) -> None:
    lines = Lines()
    assert (await executor.run(assignment(CommandTarget("echo $T; echo '${secret'")), "n1", lines)).error is None
    assert memory.faults.calls["secrets.get"] == 0
    assert lines.of("info") == ["", "${secret"]


# ------------------------------------------------------------------------------------------------------- when it can't


async def test_a_missing_secret_fails_permanently(executor: WithSecrets) -> None:
    target = CommandTarget("touch /nowhere", env={"T": "${secret:gone}"})
    attempt_result = await executor.run(assignment(target), "n1", Lines())
    assert attempt_result.outcome is Outcome.PERMANENT
    assert "there is no secret gone" in (attempt_result.error or "")


async def test_while_secrets_cannot_be_read_the_attempt_is_deferred(
    executor: WithSecrets, memory: MemoryBackends
) -> None:
    memory.faults.fail_before("secrets.get")
    attempt_result = await executor.run(assignment(CommandTarget("true", env={"T": "${secret:token}"})), "n1", Lines())
    assert attempt_result.outcome is Outcome.DEFERRED


async def test_a_node_without_a_key_declines_what_needs_secrets_and_nothing_else(memory: MemoryBackends) -> None:
    needs = assignment(CommandTarget("true", env={"T": "${secret:token}"}))
    async with around(memory.secrets, None) as executor:
        assert "SECRETS_KEY" in (await executor.declines(needs, "n1") or "")
        assert await executor.declines(assignment(CommandTarget("true")), "n1") is None
    async with around(memory.secrets, Vault([KEY])) as executor:
        assert await executor.declines(needs, "n1") is None
        # What the executors themselves decline is declined still.
        assert "not in ALLOW_PYTHON" in (await executor.declines(assignment(PythonTarget("os:system")), "n1") or "")


async def test_a_node_with_another_key_cannot_open_a_secret(memory: MemoryBackends) -> None:
    await UseCases(memory, FakeClock(), vault=Vault([KEY])).secrets.set("token", TOKEN)
    async with around(memory.secrets, Vault([OTHER_KEY])) as executor:
        attempt_result = await executor.run(
            assignment(CommandTarget("true", env={"T": "${secret:token}"})), "n1", Lines()
        )
    assert attempt_result.outcome is Outcome.PERMANENT
    assert "SECRETS_KEY" in (attempt_result.error or "")


# -------------------------------------------------------------------------------------------------------------- sealed


async def test_mongodb_has_only_ciphertext(mongo_url: str, redis_url: str, namespace: str) -> None:
    from cronflow.backends.mongo.database import MongoDatabase

    async with open_backends(redis_url, mongo_url, namespace) as backends:
        await UseCases(backends, FakeClock(), vault=Vault([KEY])).secrets.set("token", TOKEN, by="ada")
        async with MongoDatabase(mongo_url, namespace) as database:
            [document] = await database["secrets"].find({}).to_list(None)
        raw = base64.b64decode(document["sealed"].partition(":")[2])
        assert len(raw) == 12 + len(TOKEN) + 16, "nonce, as many bytes as the value has, tag"
        assert TOKEN.encode() not in raw
        assert TOKEN not in repr(document)
        [secret] = await backends.secrets.get(["token"])
        assert Vault([KEY]).open(secret) == TOKEN


def sealed(vault: Vault, name: str = "token") -> Secret:
    return Secret(name=name, sealed=vault.seal(name, TOKEN), updated_at=FakeClock().now(), updated_by="")


def test_a_value_is_sealed_differently_each_time_and_bound_to_its_name() -> None:
    vault = Vault([KEY])
    first, second = sealed(vault), sealed(vault)
    assert first.sealed != second.sealed
    assert vault.open(first) == vault.open(second) == TOKEN
    with pytest.raises(CannotOpen, match="has another name"):
        vault.open(replace(first, name="other"))
    fingerprint, _, text = first.sealed.partition(":")
    raw = bytearray(base64.b64decode(text))
    raw[-1] ^= 1
    with pytest.raises(CannotOpen):
        vault.open(replace(first, sealed=f"{fingerprint}:{base64.b64encode(raw).decode()}"))


def test_a_new_key_in_front_seals_and_the_old_one_still_opens() -> None:
    old = sealed(Vault([KEY]))
    rotated = Vault([OTHER_KEY, KEY])
    assert rotated.open(old) == TOKEN
    new = sealed(rotated)
    assert Vault([OTHER_KEY]).open(new) == TOKEN
    with pytest.raises(CannotOpen, match="SECRETS_KEY"):
        Vault([KEY]).open(new)


# ------------------------------------------------------------------------------------------------------ where it may be


@pytest.mark.parametrize(
    "make",
    [
        lambda: CommandTarget("curl -H 'T: ${secret:token}' host"),
        lambda: CommandTarget(("curl", "${secret:token}")),
        lambda: HttpTarget("http://host/?t=${secret:token}"),
    ],
)
def test_no_secret_stands_where_others_see_it(make: Any) -> None:
    with pytest.raises(InvalidInput, match="would be visible to others"):
        make()


@pytest.mark.parametrize("wrong", ["${secret:}", "${secret:a b}", "${secret:token", "x ${secret:ü} y"])
def test_a_reference_that_is_none_is_refused(wrong: str) -> None:
    for make in (
        lambda: CommandTarget("true", env={"T": wrong}),
        lambda: HttpTarget("http://host", headers={"T": wrong}),
        lambda: HttpTarget("http://host", body=wrong),
        lambda: PythonTarget("a:b", {"deep": [{"er": wrong}]}),
    ):
        with pytest.raises(InvalidInput, match="is not a reference to a secret"):
            make()
