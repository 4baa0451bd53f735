"""What routes are given: instants in the query, JSON in the body, versions in a header.

Bodies are read by the strict readers of job documents, so that a mistake is told in one form everywhere, field by
field. The types here describe them in the OpenAPI document; a test sends each example.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from fastapi import Depends, Header, Path, Query, Request
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from cronflow.api.problems import Unreadable
from cronflow.documents.mappings import read_fields
from cronflow.documents.values import Reader, instant, text
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import Retry
from cronflow.usecases.all import UseCases

if TYPE_CHECKING:
    from cronflow.api.routes.chaos import Chaos

ETAG = re.compile(r'"([1-9][0-9]{0,17})"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What the routes know of the settings: the cluster's name, how often nodes report, the retry that stands in
    for what a job's document leaves out, and what may be broken on purpose where that is a development cluster.
    """

    namespace: str = "default"
    heartbeat: timedelta = timedelta(seconds=5)
    retry: Retry = field(default_factory=Retry)
    version: str = ""
    chaos: Chaos | None = None


def _service(request: Request) -> UseCases:
    service: UseCases = request.app.state.service
    return service


def _deployment(request: Request) -> Deployment:
    deployment: Deployment = request.app.state.deployment
    return deployment


def _instant(value: object) -> object:
    try:
        return None if value is None else instant(value)
    except InvalidInput as error:
        [problem] = error.problems
        told = {"what": problem.what, "remedy": problem.remedy}
        raise PydanticCustomError("ours", "{what}", told) from None


JobName = Annotated[str, Path(description="The job.")]
NodeName = Annotated[str, Path(description="The node.")]
RunId = Annotated[str, Path(description="The run.")]
Uses = Annotated[UseCases, Depends(_service)]
Deployed = Annotated[Deployment, Depends(_deployment)]
Since = Annotated[
    datetime | None,
    BeforeValidator(_instant),
    Query(description="Due from this instant on, such as 2026-11-21T02:00:00Z."),
]
Until = Annotated[datetime | None, BeforeValidator(_instant), Query(description="Due before this instant.")]
From = Annotated[
    datetime | None,
    BeforeValidator(_instant),
    Query(description="Not older than this instant, such as 2026-11-21T02:00:00Z."),
]
At = Annotated[
    datetime | None,
    BeforeValidator(_instant),
    Query(description="The instant; without it the latest that fell due."),
]


async def _body(request: Request) -> object:
    """Raises Unreadable when it is not JSON. An empty body is an object without fields."""
    content = await request.body()
    if not content:
        return {}
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise Unreadable(f"the body is not JSON: {error}") from None


Body = Annotated[object, Depends(_body)]


def fields_of(body: object, table: Mapping[str, Reader], required: Collection[str] = ()) -> dict[str, Any]:
    """The fields that are given. Raises InvalidInput with everything that is wrong."""
    found, problems = read_fields(body, table)
    assert isinstance(body, Mapping)
    problems += [Problem(name, "missing", "add it") for name in required if name not in body]
    if problems:
        raise InvalidInput(problems)
    return found


def at_most(longest: int) -> Reader:
    """Text of at most so many characters. What was sent is not shown: it may be secret."""

    def read(value: object) -> str:
        if not isinstance(value, str):
            raise InvalidInput("expected text")
        if len(value) > longest:
            raise InvalidInput(f"is longer than {longest:,} characters")
        return text(value)

    return read


def _expected(
    if_match: Annotated[
        str | None, Header(max_length=100, description='The `ETag` of the job as it was read, such as `"3"`.')
    ] = None,
) -> int | None:
    if if_match is None:
        return None
    match = ETAG.fullmatch(if_match.strip())
    if match is None:
        raise InvalidInput(Problem("If-Match", "is no ETag of a job", 'give one as it was answered, such as "3"'))
    return int(match[1])


Expected = Annotated[int | None, Depends(_expected)]


def etag_of(version: int) -> str:
    """What an edit compares: the version."""
    return f'"{version}"'


def takes(name: str, example: object, *, required: bool = True) -> dict[str, Any]:
    """Describes the body of a route: the schema of this name."""
    content = {"schema": {"$ref": f"#/components/schemas/{name}"}, "example": example}
    return {"requestBody": {"required": required, "content": {"application/json": content}}}
