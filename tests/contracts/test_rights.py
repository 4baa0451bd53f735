"""The rights of the Redis user: the list is that of the commands of the code, and the check finds what is missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from redis.asyncio import Redis

from cronflow.backends.redis import rights
from cronflow.backends.redis.admin import RedisCoordinationAdmin
from cronflow.backends.redis.connection import RedisConnection
from cronflow.backends.redis.keys import RedisKeys
from cronflow.domain.errors import AccessDenied
from cronflow.testing.embedded import RedisServer
from tests.contracts.conftest import Coordination

HOME = Path(rights.__file__).parent
OF_DEVELOPMENT = {"flush.lua"}
"""Scripts of `cronflow dev` alone."""
OPTIONAL = {"config get"}
"""Commands that may be denied: a check is left out then."""


def commands_of_the_code() -> set[str]:
    scripts = [path.read_text() for path in (HOME / "lua").glob("*.lua") if path.name not in OF_DEVELOPMENT]
    called = {name for text in scripts for name in re.findall(r"redis\.call\('(\w+)'", text)}
    modules = [path.read_text() for path in HOME.glob("*.py")]
    sent = {name for text in modules for name in re.findall(r"""[(]"([A-Z]{3,}(?: GET)?)",?""", text)}
    return {name.lower() for name in called | sent} | {"eval", "evalsha", "subscribe"}


def test_the_rights_are_the_commands_of_the_code() -> None:
    listed = {command.split()[0] for command in (*rights.NEEDED, *rights.USEFUL)}
    assert commands_of_the_code() - OPTIONAL - NOT_COMMANDS == listed


def test_the_how_to_has_the_line_to_paste() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "secure-servers.md").read_text()
    assert f"ACL SETUSER cronflow reset on >PASSWORD {rights.acl_rule(RedisKeys('default'))}\n" in page


NOT_COMMANDS = {"redis", "loading", "readonly", "oom", "misconf", "masterdown", "noreplicas", "noauth"}
"""Other words in capitals."""


async def test_the_check_passes_where_there_are_no_users(coordination: Coordination) -> None:
    await coordination.coordination_admin.check_rights()


@pytest.mark.parametrize("lacking", ["zadd", "get", "publish"])
async def test_the_check_of_redis_names_what_is_missing_and_only_that(
    own_redis: RedisServer, namespace: str, lacking: str
) -> None:
    rule = f"reset on >x {rights.acl_rule(RedisKeys(namespace))}"
    url = own_redis.url.replace("//", "//user:x@")
    async with Redis.from_url(own_redis.url) as admin:
        await admin.execute_command("ACL", "SETUSER", "user", *rule.split())  # type: ignore[no-untyped-call]
        async with RedisConnection(url, namespace) as connection:
            await RedisCoordinationAdmin(connection).check_rights()
            await admin.execute_command("ACL", "SETUSER", "user", f"-{lacking}")  # type: ignore[no-untyped-call]
            with pytest.raises(AccessDenied, match=rf"may not run {lacking} on \{{cf:{namespace}\}}:"):
                await RedisCoordinationAdmin(connection).check_rights()
