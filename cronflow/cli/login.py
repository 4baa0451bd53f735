"""`cronflow login`, `logout` and `whoami`: from now on commands go through an API, or no more; and as whom.

The rule: a password and a key are never arguments, which every process of the machine could read; what is kept of them
is what the API gave, in a file of one's own.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from cronflow.cli import words
from cronflow.cli.bulk import interactive
from cronflow.cli.connect import current_login, settings
from cronflow.cli.credentials import login_file
from cronflow.cli.output import Format, Output, console, note, show, warn
from cronflow.cli.prompts import first_line, hidden_value
from cronflow.domain.errors import CronFlowError, InvalidInput, Problem
from cronflow.remote.login import Login, LoginFile, check_way
from cronflow.schemas.access import principal_schema

if TYPE_CHECKING:
    from cronflow.domain.access import Principal


def login(
    url: Annotated[
        str | None, typer.Argument(metavar="[URL]", help="Of the API; without it the one before.", show_default=False)
    ] = None,
    user: Annotated[str | None, typer.Option(metavar="NAME", help="Who logs in.", show_default=False)] = None,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="The password is the first line of stdin.")
    ] = False,
    key_stdin: Annotated[bool, typer.Option("--key-stdin", help="An API key is the first line of stdin.")] = False,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Over plain http to another machine, where that way is safe.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Log in to an API: from now on commands go through it, and need no server."""
    file = login_file()
    before = _kept(file)
    address = _address(url, before)
    check_way(address, insecure=insecure)
    if key_stdin:
        if password_stdin or user is not None:
            what = "a key is no user's, and needs no password"
            raise InvalidInput(Problem("--key-stdin", what, "leave out --user and --password-stdin"))
        made = Login(url=address, token=_checked_key(first_line("API key")), insecure=insecure)
        principal = asyncio.run(_enter(file, before, made))
    else:
        name = _user(user, before if before is not None and before.url == address else None)
        if not password_stdin and not interactive():
            what = "there is no terminal on which to ask for the password"
            raise InvalidInput(Problem("--password-stdin", what, "add it, and pipe the password in; or --key-stdin"))
        password = first_line("Password") if password_stdin else hidden_value("Password")
        principal = asyncio.run(_enter_with(file, before, address, name, password, insecure=insecure))

    def view() -> None:
        console().print(Text.assemble(words.word("ok"), f"  {_told(principal, address)}"))

    show(output, {"url": address, **principal_schema(principal)}, [principal.name], view)
    note(f"kept in {file.path}; cronflow logout ends it")
    if settings().api_url not in (None, address) or settings().api_key is not None:
        warn("CRONFLOW_API_URL or CRONFLOW_API_KEY is set, and counts before this login")


def logout(output: Output = Format.TABLE) -> None:
    """Log out: the session ends, and commands ask the servers again."""
    file = login_file()
    ended = asyncio.run(_leave(file))

    def view() -> None:
        console().print("Nobody was logged in." if ended is None else f"Logged out of {words.clean(ended.url)}.")

    show(output, {"url": None if ended is None else ended.url}, [] if ended is None else [ended.url], view)
    if settings().api_url is not None:
        warn("CRONFLOW_API_URL is set: commands go on to use it")


def whoami(output: Output = Format.TABLE) -> None:
    """Who is logged in, where, and as what; exit code 1 when nobody is."""
    found = current_login()
    if found is None:
        error = CronFlowError("nobody is logged in: commands ask the servers of REDIS_URL and MONGO_URL")
        error.add_note("cronflow login URL sends them through an API")
        raise error
    used, file = found
    principal = asyncio.run(_principal(used, file))
    source = "CRONFLOW_API_KEY" if file is None else str(file.path)

    def view() -> None:
        console().print(_told(principal, used.url))

    show(output, {"url": used.url, **principal_schema(principal), "source": source}, [principal.name], view)
    note(f"by {source}")


def _told(principal: Principal, url: str) -> str:
    of = f" for jobs such as {principal.jobs[0]}" if principal.jobs else ""
    return words.clean(f"{principal.name}, {principal.role}{of}, via {url}")


def _kept(file: LoginFile) -> Login | None:
    try:
        return file.read()
    except InvalidInput as error:
        # It is about to be replaced.
        warn(str(error))
        return None


def _address(url: str | None, before: Login | None) -> str:
    from cronflow.client.calls import checked_url

    address = url or settings().api_url or (None if before is None else before.url)
    if address is None:
        raise InvalidInput(Problem("URL", "missing", "give the address of the API, such as https://cron.example.com"))
    address = checked_url(address)
    if "@" in address.partition("://")[2].partition("/")[0]:
        what = "an address is no place for a password: it is shown and logged"
        raise InvalidInput(Problem("URL", what, "write it without, and --user NAME"))
    return address


def _user(user: str | None, before: Login | None) -> str:
    if user is not None:
        return user
    known = before.user if before is not None and before.user else None
    if interactive():
        return str(typer.prompt("User", default=known, err=True))
    if known is None:
        raise InvalidInput(Problem("--user", "missing", "say who logs in"))
    return known


def _checked_key(text: str) -> str:
    from cronflow.config.values import key

    try:
        return key(text)
    except InvalidInput as error:
        raise InvalidInput([Problem("stdin", one.what, one.remedy) for one in error.problems]) from None


async def _enter_with(
    file: LoginFile, before: Login | None, url: str, user: str, password: str, *, insecure: bool
) -> Principal:
    from cronflow.client import ApiError, AsyncClient
    from cronflow.remote.errors import told

    async with AsyncClient(url) as client:
        try:
            tokens = await client.login(user, password)
        except ApiError as error:
            if error.status == 401:
                raise CronFlowError(f"{url} refuses {user}: {error.detail}") from None
            raise told(error, Login(url=url, token="")) from None
    made = Login(url=url, token=tokens.access, refresh=tokens.refresh, user=user, insecure=insecure)
    return await _enter(file, before, made)


async def _enter(file: LoginFile, before: Login | None, made: Login) -> Principal:
    """Keep a login that works; the session of the one before ends."""
    principal = await _principal(made, None)
    async with file.locked():
        file.write(made)
    if before is not None:
        await _end(before)
    return principal


async def _leave(file: LoginFile) -> Login | None:
    async with file.locked():
        login = _kept(file)
        file.forget()
    if login is not None and not await _end(login):
        warn(f"{login.url} did not take it: the session lasts until its time is over, a week at most")
    return login


async def _end(login: Login) -> bool:
    """Whether the session has ended. A key has none."""
    from cronflow.client import ApiError, AsyncClient
    from cronflow.client.aio import Tokens

    if login.refresh is None:
        return True
    async with AsyncClient(login.url) as client:
        client.tokens = Tokens(login.token, login.refresh)
        try:
            await client.logout()
        except ApiError:
            return False
    return True


async def _principal(login: Login, file: LoginFile | None) -> Principal:
    from cronflow.remote.client import RemoteClient
    from cronflow.remote.service import RemoteService

    async with RemoteClient(login, file) as client:
        return await RemoteService(client).principal()
