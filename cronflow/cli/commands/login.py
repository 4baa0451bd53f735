"""`cronflow login`, `logout`, `context …` and `whoami`: the API that commands use, and the user.

The rule: a password or a key is never an argument, which every process on the machine could read; only tokens are
stored, in a private file.
"""

from __future__ import annotations

import asyncio
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from cronflow.cli.main import new_group
from cronflow.cli.target import contexts, settings, target
from cronflow.cli.terminal import formatting
from cronflow.cli.terminal.output import (
    Format,
    Output,
    first_line,
    hidden_value,
    interactive,
    note,
    show,
    show_deleted,
    warn,
)
from cronflow.cli.terminal.tables import Column, table
from cronflow.client.session import Login, LoginFile, check_transport
from cronflow.domain.errors import CronFlowError, InvalidInput, NotFound, Problem
from cronflow.domain.job import check_name

if TYPE_CHECKING:
    from cronflow.client.contexts import Contexts
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
    sso: Annotated[
        bool, typer.Option("--sso", "--oidc", help="Log in through the identity provider, in a browser.")
    ] = False,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Allow plain http to another machine, for example over a VPN.")
    ] = False,
    context: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Save this login under a name, and use it from now on. Default: the current."
        ),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Log in to an API. Later commands use it and need no access to the servers."""
    saved = contexts()
    file = saved.file(_context_name(context) or settings().context or saved.current())
    before = _stored(file)
    address = _address(url, before)
    check_transport(address, insecure=insecure)
    if sso:
        if password_stdin or key_stdin or user is not None:
            what = "single sign-on asks for the user and the password in the browser"
            raise InvalidInput(Problem("--sso", what, "leave out --user, --password-stdin and --key-stdin"))
        principal = asyncio.run(_log_in_through_provider(file, before, address, insecure=insecure))
    elif key_stdin:
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
    saved.use(file.context)
    note(f"stored as context {file.context} in {file.path}; cronflow logout ends the session")
    _warn_unless_used(file)


def _context_name(name: str | None) -> str | None:
    return None if name is None else check_name(name, "context")


def _warn_unless_used(file: LoginFile) -> None:
    """Warn if other commands do not use this login: what is set in the environment comes first."""
    try:
        used = target()
    except InvalidInput as error:
        warn(formatting.clean(str(error)))
        return
    if used.file is None or used.file.path != file.path:
        warn(formatting.clean(f"commands use {used} instead: flags and environment come before a saved login"))


def logout(output: Output = Format.TABLE) -> None:
    """Log out: the session ends, and later commands connect to the servers again."""
    saved = contexts()
    file = saved.file(settings().context or saved.current())
    ended = asyncio.run(_log_out(file))
    view = "Not logged in." if ended is None else f"Logged out of {formatting.clean(ended.url)}."
    show(output, {"url": None if ended is None else ended.url}, [] if ended is None else [ended.url], view)
    if settings().api_url is not None:
        warn("CRONFLOW_API_URL is set: commands continue to use it")


context = new_group("List, choose and delete saved logins.")

ContextName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the context.")]


@context.command("list")
def list_contexts(output: Output = Format.TABLE) -> None:
    """List the saved logins; * marks the current one."""
    saved = contexts()
    current = saved.current()
    found = []
    for name in saved.names():
        login = _stored(saved.file(name))
        url, user = (None, None) if login is None else (login.url, login.user)
        found.append({"name": name, "url": url, "user": user or None, "current": name == current})

    def view() -> None:
        columns = [Column(""), Column("NAME"), Column("API"), Column("USER")]
        rows = [
            ["*" if one["current"] else "", one["name"], one["url"] or "unreadable", one["user"] or "API key"]
            for one in found
        ]
        table(columns, [[formatting.clean(str(cell)) for cell in row] for row in rows])

    show(output, found, [str(one["name"]) for one in found], view)
    if not found:
        note("no saved logins; log in: cronflow login URL --context NAME")


@context.command("use")
def use_context(name: ContextName, output: Output = Format.TABLE) -> None:
    """Make a saved login the current one."""
    saved, file = _existing(name)
    login = file.read()
    saved.use(name)
    url = None if login is None else login.url
    show(output, {"name": name, "url": url}, [name], f"Now using context {name} at {formatting.clean(str(url))}.")
    _warn_unless_used(file)


@context.command("delete")
def delete_context(name: ContextName, output: Output = Format.TABLE) -> None:
    """Log out of a context and delete it. If it is the current one, later commands connect to the servers."""
    _, file = _existing(name)
    asyncio.run(_log_out(file))
    show_deleted("context", name, output)


def _existing(name: str) -> tuple[Contexts, LoginFile]:
    saved = contexts()
    known = saved.names()
    if name in known:
        return saved, saved.file(name)
    error = NotFound("context", name)
    if near := get_close_matches(name, known, n=3):
        error.add_note(f"did you mean {' or '.join(near)}?")
    error.add_note("list the contexts: cronflow context list")
    raise error


def whoami(output: Output = Format.TABLE) -> None:
    """Show the current user, role and API; exit code 1 if not logged in."""
    found = target()
    used, file = found.login, found.file
    if used is None and found.ignored:
        raise CronFlowError(f"commands do not use {', '.join(found.ignored)}, but {found}")
    if used is None:
        error = CronFlowError("not logged in; commands connect to the servers directly")
        error.add_note("to use an API: cronflow login URL")
        raise error
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


async def _log_in_through_provider(
    file: LoginFile, before: Login | None, url: str, *, insecure: bool
) -> PrincipalSchema:
    from cronflow.cli.single_sign_on import sign_in
    from cronflow.client import ApiError, AsyncClient
    from cronflow.client.authenticated import domain_error

    async with AsyncClient(url) as client:
        try:
            tokens = await sign_in(client)
            user = (await client.me())["name"]
        except ApiError as error:
            if error.status in (401, 403):
                raise CronFlowError(f"{url} refused the login: {error.detail}") from None
            if error.status == 404:
                what = f"{url} has no single sign-on; log in with --user, or set OIDC_ISSUER on the API"
                raise CronFlowError(what) from None
            raise domain_error(error, Login(url=url, token="")) from None
    return await _log_in(
        file, before, Login(url=url, token=tokens.access, refresh=tokens.refresh, user=user, insecure=insecure)
    )


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
