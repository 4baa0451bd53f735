"""The reference of the API for browsers: Swagger UI at `/docs`, Redoc at `/redoc`.

Their files come from the package fastapi-offline, of which one version is pinned. They load nothing from other hosts
and obey the policy of the dashboard; only Redoc, which fills style sheets by script, may insert an empty one.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from fastapi import FastAPI, Request, Response
from starlette.responses import HTMLResponse

from cronflow.api.static_page import POLICY, TYPES, Asset, asset

ASSETS = "/docs/assets"
FILES = ("swagger-ui-bundle.js", "swagger-ui.css", "redoc.standalone.js")
START = "swagger-ui-start.js"
EMPTY_STYLE = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
"""The hash of the empty text."""
REDOC_POLICY = POLICY.replace("style-src 'self'", f"style-src 'self' {EMPTY_STYLE}")
KEPT = "public, max-age=86400"
START_SCRIPT = (
    b'SwaggerUIBundle({ url: "/openapi.json", dom_id: "#swagger-ui", deepLinking: true, validatorUrl: null });\n'
)
HEAD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>CronFlow API</title>
<link rel="icon" href="data:,">"""
SWAGGER_UI = f"""{HEAD}<link rel="stylesheet" href="{ASSETS}/swagger-ui.css"></head><body><div id="swagger-ui"></div>
<script src="{ASSETS}/swagger-ui-bundle.js"></script><script src="{ASSETS}/{START}"></script></body></html>
"""
# Its search would need a worker from a blob.
REDOC = f"""{HEAD}</head><body><redoc spec-url="/openapi.json" disable-search></redoc>
<script src="{ASSETS}/redoc.standalone.js"></script></body></html>
"""


@lru_cache
def _asset(name: str) -> Asset:
    if name == START:
        return Asset(TYPES[".js"], KEPT, START_SCRIPT, None)
    package = find_spec("fastapi_offline")
    assert package is not None
    assert package.origin is not None
    return asset(Path(package.origin).parent / "static" / name, KEPT)


def add_reference_pages(api: FastAPI) -> None:
    """Add `/docs` and `/redoc`."""

    @api.get("/docs", include_in_schema=False)
    async def swagger_ui() -> HTMLResponse:
        return HTMLResponse(SWAGGER_UI, headers={"Content-Security-Policy": POLICY})

    @api.get("/redoc", include_in_schema=False)
    async def redoc() -> HTMLResponse:
        return HTMLResponse(REDOC, headers={"Content-Security-Policy": REDOC_POLICY})

    for name in (*FILES, START):
        _add_asset(api, name)


def _add_asset(api: FastAPI, name: str) -> None:
    # Not a coroutine: it runs in a thread, because it compresses the file on first use.
    @api.get(f"{ASSETS}/{name}", include_in_schema=False)
    def file(request: Request) -> Response:
        return _asset(name).answer(request.headers)
