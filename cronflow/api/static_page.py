"""The dashboard, as `make ui` built it into `cronflow/_ui`, served with the API.

Only files that existed at the start are served, from a table by name, so no path leads out of the folder. The path of
a view returns `index.html`, which routes in the browser; any other path is the application's. Browsers cache files with
a hash in their name for ever and revalidate all others. The page may load nothing from other hosts and run no inline
script.
"""

from __future__ import annotations

import gzip
import mimetypes
import re
from dataclasses import dataclass
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from cronflow.api.compression import WORTH_IT, accepts_gzip

BUILT = Path(__file__).parents[1] / "_ui"
VIEWS = re.compile(
    r"/((jobs|runs|nodes)(/[^/]+)?|jobs/new/|jobs/[^/]+/edit|settings(/[\w-]+)?|timeline|logs|dead-letters|limits|chains"
    r"|load|incident|compare|cron|chaos|sessions|audit|alerts)?"
)
"""The paths of `dashboard/src/lib/views.ts`, and those from which views have moved."""
NAMED_BY_CONTENT = "/assets/"
FOR_EVER = "public, max-age=31536000, immutable"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
NOT_BUILT = """This is CronFlow's API, but the dashboard has not been built.

Build it with `make ui` (requires Node 20.19 or later) and restart the API.
The API is documented at /docs.
"""
# The same on every machine, whatever its own table has.
TYPES = {".js": "text/javascript", ".svg": "image/svg+xml", ".woff2": "font/woff2", ".json": "application/json"}


def is_built() -> bool:
    """Whether the package contains the dashboard."""
    return (BUILT / "index.html").is_file()


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the dashboard. `packed`: compressed by gzip, if that is smaller."""

    media_type: str
    cache: str
    plain: bytes
    packed: bytes | None

    def answer(self, headers: Headers) -> Response:
        content, more = self.plain, {"Cache-Control": self.cache, "Content-Security-Policy": POLICY}
        if self.packed is not None:
            more["Vary"] = "Accept-Encoding"
            if accepts_gzip(headers):
                content, more["Content-Encoding"] = self.packed, "gzip"
        return Response(content, media_type=self.media_type, headers=more)


class Page:
    """The files of a folder, by path; none when the dashboard was not built."""

    def __init__(self, folder: Path = BUILT) -> None:
        self._assets = {
            address: asset(path, FOR_EVER if address.startswith(NAMED_BY_CONTENT) else "no-cache")
            for path in sorted(folder.rglob("*"))
            if path.is_file() and (address := f"/{path.relative_to(folder).as_posix()}")
        }

    def answer(self, path: str, headers: Headers) -> Response | None:
        """None when the path is not of the dashboard."""
        is_view = VIEWS.fullmatch(path) is not None
        found = self._assets.get("/index.html" if is_view else path)
        if found is not None:
            return found.answer(headers)
        return PlainTextResponse(NOT_BUILT, 404) if is_view else None


class WithPage:
    """The application, and the dashboard at its own paths."""

    def __init__(self, app: ASGIApp, page: Page) -> None:
        self._app = app
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_read = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        answer = self._page.answer(scope["path"], Headers(scope=scope)) if is_read else None
        if answer is None:
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            answer.body = b""
        await answer(scope, receive, send)


def asset(path: Path, cache: str) -> Asset:
    """The file, compressed if that is smaller."""
    plain = path.read_bytes()
    media_type = TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    # mtime: the same file is compressed to the same bytes.
    packed = gzip.compress(plain, mtime=0) if len(plain) >= WORTH_IT else plain
    return Asset(media_type, cache, plain, packed if len(packed) < len(plain) else None)
