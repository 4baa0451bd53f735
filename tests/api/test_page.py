"""The dashboard served by the API: paths, response headers, and no access to other files."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from urllib.parse import unquote

import httpx2
import pytest
from starlette.types import ASGIApp, Message

from cronflow.api.middleware import guarded
from cronflow.api.static_page import VIEWS, Page, WithPage
from tests.api.conftest import the_api
from tests.api.test_access import routes

INDEX = b'<!doctype html><script type="module" src="/assets/index-1.js"></script>'
SCRIPT = b"const answer = 42; // \n" * 100
FILES = {
    "index.html": INDEX,
    "theme.js": b"// short",
    "favicon.svg": b"<svg/>",
    "assets/index-1.js": SCRIPT,
    "assets/index-1.css": b"a{}",
    "assets/inter-1.woff2": b"wOF2" + bytes(range(256)) * 8,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dashboard as built by `make ui`, next to a file that does not belong to it."""
    built = tmp_path / "_ui"
    for name, content in FILES.items():
        (built / name).parent.mkdir(parents=True, exist_ok=True)
        (built / name).write_bytes(content)
    (tmp_path / "secret.txt").write_text("not for you")
    return built


def application(folder: Path) -> ASGIApp:
    """The complete application, as served by a process."""
    return guarded(WithPage(the_api(), Page(folder)))


async def ask(app: ASGIApp, path: str, method: str = "GET", **headers: str) -> httpx2.Response:
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://api") as http:
        return await http.request(method, path, headers={"Accept-Encoding": "identity", **headers})


async def raw(app: ASGIApp, path: str) -> tuple[int, bytes]:
    """A request whose path no client has normalized."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(
        {
            "type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "path": unquote(path),
            "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": [],
            "client": ("127.0.0.1", 1), "server": ("api", 80),
        },
        receive,
        send,
    )  # fmt: skip
    body = b"".join(message.get("body", b"") for message in sent)
    return int(sent[0]["status"]), body


@pytest.mark.parametrize(
    "path", ["/", "/jobs", "/runs/nightly-report@20261121T020000Z", "/dead-letters", "/jobs/a%20b"]
)
async def test_every_view_returns_the_index_which_is_revalidated(folder: Path, path: str) -> None:
    answer = await ask(application(folder), path)
    assert (answer.status_code, answer.content) == (200, INDEX)
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["cache-control"] == "no-cache"


async def test_the_content_security_policy_allows_only_own_scripts(folder: Path) -> None:
    policy = (await ask(application(folder), "/")).headers["content-security-policy"].split("; ")
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert not any("unsafe" in part or "*" in part for part in policy)


@pytest.mark.parametrize(
    ("path", "media_type", "cache"),
    [
        ("assets/index-1.js", "text/javascript", "public, max-age=31536000, immutable"),
        ("assets/index-1.css", "text/css", "public, max-age=31536000, immutable"),
        ("assets/inter-1.woff2", "font/woff2", "public, max-age=31536000, immutable"),
        ("theme.js", "text/javascript", "no-cache"),
        ("favicon.svg", "image/svg+xml", "no-cache"),
    ],
)
async def test_files_have_media_types_and_hashed_files_are_cached(
    folder: Path, path: str, media_type: str, cache: str
) -> None:
    answer = await ask(application(folder), f"/{path}")
    assert (answer.status_code, answer.content) == (200, FILES[path])
    assert answer.headers["content-type"].partition(";")[0] == media_type
    assert answer.headers["cache-control"] == cache
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_compressible_files_are_sent_compressed_on_request(folder: Path) -> None:
    app = application(folder)
    packed = await ask(app, "/assets/index-1.js", **{"Accept-Encoding": "gzip, br"})
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) == len(gzip.compress(SCRIPT))
    assert packed.content == SCRIPT
    plain = await ask(app, "/assets/index-1.js")
    assert "content-encoding" not in plain.headers
    assert plain.headers["vary"] == packed.headers["vary"] == "Accept-Encoding"
    assert "content-encoding" not in (await ask(app, "/theme.js", **{"Accept-Encoding": "gzip"})).headers


async def test_head_returns_the_same_headers_without_content(folder: Path) -> None:
    answer = await ask(application(folder), "/assets/index-1.js", "HEAD")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-length"] == str(len(SCRIPT))


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/assets/../../secret.txt",
        "/assets/%2e%2e/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "//etc/passwd",
        "/assets//etc/passwd",
        "/assets/..",
        "/assets/index-1.js/",
        "/%00",
    ],
)
async def test_no_path_leaves_the_directory(folder: Path, path: str) -> None:
    code, body = await raw(application(folder), path)
    assert b"not for you" not in body
    assert b"root:" not in body
    assert (code, body) == (200, INDEX) or (code == 404 and b"there is nothing at" in body)


@pytest.mark.parametrize(
    "path", ["/assets/index-0.js", "/a/b/c", "/index.php", "/jobs/", "/jobs/a/b", "/wp-login", "/%00"]
)
async def test_an_unknown_path_returns_404_instead_of_the_index(folder: Path, path: str) -> None:
    answer = await ask(application(folder), path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_the_views_are_those_of_the_dashboard() -> None:
    source = (Path(__file__).parents[2] / "dashboard" / "src" / "lib" / "views.ts").read_text()
    shown = {f"/{name}/x" for name in re.findall(r"path: one\('(\w+)'\)", source)}
    for pattern in re.findall(r"path: /\^(.*?)\$/,", source):
        path = re.sub(r"\(\[.*?\]\+\)", "x", pattern.replace("\\/", "/"))
        shown |= {re.sub(r"\(\?:.*?\)\?", "", path), re.sub(r"\(\?:(.*?)\)\?", r"\1", path)}
    assert {"/", "/jobs/x/edit", "/settings", "/settings/x", "/nodes/x"} <= shown
    assert len(shown) > source.count("{ name: '")
    moved = {path for path, _ in re.findall(r"'(/[\w-]+)': '(/[\w/-]+)'", source)}
    assert moved >= {"/sessions", "/audit"}
    assert not {path for path in shown | moved if VIEWS.fullmatch(path) is None}, "change VIEWS with the views"


async def test_the_paths_of_the_api_are_not_shadowed(folder: Path) -> None:
    app = application(folder)
    assert not [path for _, path, _ in routes(the_api()) if VIEWS.fullmatch(path)]
    for path in ("/api/v1/nothing", "/api", "/metrics"):
        answer = await ask(app, path)
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json"), path
    assert (await ask(app, "/livez")).json() == {"status": "ok"}
    assert (await ask(app, "/openapi.json")).json()["openapi"] == "3.1.0"
    answer = await ask(app, "/jobs", "POST")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
async def test_the_reference_of_the_api_loads_only_files_of_the_package(folder: Path, path: str) -> None:
    app = application(folder)
    answer = await ask(app, path)
    assert (answer.status_code, "//" in answer.text) == (200, False)
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "script-src 'self';" in policy
    loaded = re.findall(r'(?:src|href)="(/[^"]*)"', answer.text)
    assert loaded
    for address in loaded:
        file = await ask(app, address, **{"Accept-Encoding": "gzip"})
        assert (file.status_code, file.headers["x-content-type-options"]) == (200, "nosniff"), address
        assert file.headers["content-type"].startswith(("text/javascript", "text/css"))


async def test_without_a_dashboard_the_response_explains_how_to_build_it(tmp_path: Path) -> None:
    app = application(tmp_path / "nothing")
    for path in ("/", "/jobs"):
        answer = await ask(app, path)
        assert (answer.status_code, answer.headers["content-type"]) == (404, "text/plain; charset=utf-8")
        assert "make ui" in answer.text
    assert (await ask(app, "/livez")).status_code == 200
    assert (await ask(app, "/docs")).status_code == 200
