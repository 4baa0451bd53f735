"""`cronflow login`, `logout` and `whoami`: the API that commands use, and the user.

The rule: a password or a key is never an argument, which every process on the machine could read; only tokens are
stored, in a private file.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from cronflow.cli.connect import current_login, login_file, settings
from cronflow.cli.terminal import formatting
from cronflow.cli.terminal.output import Format, Output, first_line, hidden_value, interactive, note, show, warn
from cronflow.client.session import Login, LoginFile, check_transport
from cronflow.domain.errors import CronFlowError, InvalidInput, Problem

if TYPE_CHECKING:
    from cronflow.schemas.access import PrincipalSchema


def login(
    url: Annotated[
        str | None, typer.Argument(metavar="URL", help="The address of the API. Default: the previous one.")
    ] = None,
    user: Annotated[str | None, typer.Option(metavar="NAME", help="The user name.")] = None,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from the first line of stdin.")
    ] = False,
    key_stdin: Annotated[
        bool, typer.Option("--key-stdin", help="Read an API key from the first line of stdin.")
    ] = False,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Allow plain http to another machine, for example over a VPN.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Log in to an API. Later commands use it and need no access to the servers."""
    file = login_file()
    before = _stored(file)
    address = _address(url, before)
    check_transport(address, insecure=insecure)
    if key_stdin:
        if password_stdin or user is not None:
            what = "an API key has no user and no password"
            raise InvalidInput(Problem("--key-stdin", what, "leave out --user and --password-stdin"))
        made = Login(url=address, token=_checked_key(first_line("API key")), insecure=insecure)
        principal = asyncio.run(_log_in(file, before, made))
    else:
        name = _user(user, before if before is not None and before.url == address else None)
        if not password_stdin and not interactive():
            remedy = "pipe in the password with --password-stdin, or an API key with --key-stdin"
            raise InvalidInput(Problem("", "there is no terminal to ask for the password", remedy))
        password = first_line("password") if password_stdin else hidden_value("password")
        principal = asyncio.run(_log_in_with_password(file, before, address, name, password, insecure=insecure))
    view = Text.assemble(formatting.word("ok"), f"  {_summary(principal, address)}")
    show(output, {"url": address, **principal}, [principal["name"]], view)
    note(f"stored in {file.path}; cronflow logout ends the session")
    if settings().api_url not in (None, address) or settings().api_key is not None:
        warn("CRONFLOW_API_URL or CRONFLOW_API_KEY is set, which takes precedence over this login")


def logout(output: Output = Format.TABLE) -> None:
    """Log out: the session ends, and later commands connect to the servers again."""
    file = login_file()
    ended = asyncio.run(_log_out(file))
    view = "Not logged in." if ended is None else f"Logged out of {formatting.clean(ended.url)}."
    show(output, {"url": None if ended is None else ended.url}, [] if ended is None else [ended.url], view)
    if settings().api_url is not None:
        warn("CRONFLOW_API_URL is set: commands continue to use it")


def whoami(output: Output = Format.TABLE) -> None:
    """Show the current user, role and API; exit code 1 if not logged in."""
    found = current_login()
    if found is None:
        error = CronFlowError("not logged in; commands connect to the servers directly")
        error.add_note("to use an API: cronflow login URL")
        raise error
    used, file = found
    principal = asyncio.run(_principal(used, file))
    source = "CRONFLOW_API_KEY" if file is None else str(file.path)
    answer = {"url": used.url, **principal, "source": source}
    show(output, answer, [principal["name"]], _summary(principal, used.url))
    note(f"credentials from {source}")


def _summary(principal: PrincipalSchema, url: str) -> str:
    jobs = f" for jobs such as {principal['jobs'][0]}" if principal["jobs"] else ""
    return formatting.clean(f"{principal['name']}, {principal['role']}{jobs}, via {url}")


def _stored(file: LoginFile) -> Login | None:
    try:
        return file.read()
    except InvalidInput as error:
        # It is about to be replaced or removed.
        warn(str(error))
        return None


def _address(url: str | None, before: Login | None) -> str:
    from cronflow.client.calls import checked_url

    address = url or settings().api_url or (None if before is None else before.url)
    if address is None:
        raise InvalidInput(Problem("URL", "missing", "give the address of the API, such as https://cron.example.com"))
    address = checked_url(address)
    if "@" in address.partition("://")[2].partition("/")[0]:
        what = "must not contain a password: addresses are shown and logged"
        raise InvalidInput(Problem("URL", what, "remove it, and use --user NAME"))
    return address


def _user(user: str | None, before: Login | None) -> str:
    if user is not None:
        return user
    known = before.user if before is not None and before.user else None
    if interactive():
        return str(typer.prompt("User", default=known, err=True))
    if known is None:
        raise InvalidInput(Problem("--user", "missing", "give the user name"))
    return known


def _checked_key(text: str) -> str:
    from cronflow.config.values import key

    try:
        return key(text)
    except InvalidInput as error:
        raise InvalidInput([Problem("stdin", one.what, one.remedy) for one in error.problems]) from None


async def _log_in_with_password(
    file: LoginFile, before: Login | None, url: str, user: str, password: str, *, insecure: bool
) -> PrincipalSchema:
    from cronflow.client import ApiError, AsyncClient
    from cronflow.client.authenticated import domain_error

    async with AsyncClient(url) as client:
        try:
            tokens = await client.login(user, password)
        except ApiError as error:
            if error.status == 401:
                raise CronFlowError(f"{url} refused the login of {user}: {error.detail}") from None
            raise domain_error(error, Login(url=url, token="")) from None
    made = Login(url=url, token=tokens.access, refresh=tokens.refresh, user=user, insecure=insecure)
    return await _log_in(file, before, made)


async def _log_in(file: LoginFile, before: Login | None, made: Login) -> PrincipalSchema:
    """Store a login that works; the session of the previous one ends."""
    principal = await _principal(made, None)
    async with file.locked():
        file.write(made)
    if before is not None:
        await _end(before)
    return principal


async def _log_out(file: LoginFile) -> Login | None:
    async with file.locked():
        login = _stored(file)
        file.forget()
    if login is not None and not await _end(login):
        warn(f"could not end the session at {login.url}; it expires within a week")
    return login


async def _end(login: Login) -> bool:
    """Whether the session has ended. An API key has none."""
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


async def _principal(login: Login, file: LoginFile | None) -> PrincipalSchema:
    from cronflow.client.authenticated import AuthenticatedClient

    async with AuthenticatedClient(login, file) as client:
        return await client.me()
