"""The inputs of routes: instants in the query, JSON in the body, versions in a header.

A body is a model below `Input`, which parses it and describes it in the OpenAPI document. Its errors become Problems in
the words of job documents. Jobs and alerts have parsers of their own in `cronflow.documents`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args

import orjson
from fastapi import Depends, Header, Path, Query, Request
from fastapi.dependencies.models import Dependant
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from cronflow.api.problems import Unreadable, first_problems, place_of, problems_of
from cronflow.documents import FORMAT_ZONE
from cronflow.documents.values import Reader, instant, json_mapping, nearest, text
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import Retry
from cronflow.usecases import UseCases

if TYPE_CHECKING:
    from cronflow.api.routes.chaos import Chaos
    from cronflow.schemas.cluster import SettingSchema

ETAG = re.compile(r'"([1-9][0-9]{0,17})"')
MOST_KEYS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The settings that routes use: the cluster's name, the heartbeat interval, the default retry and time zone of
    jobs, the origins that may use the API besides its own, what `cronflow dev` offers to break on purpose, and all
    settings of this process for people.
    """

    namespace: str = "default"
    heartbeat: timedelta = timedelta(seconds=5)
    retry: Retry = field(default_factory=Retry)
    timezone: str = FORMAT_ZONE
    version: str = ""
    origins: Collection[str] = ()
    chaos: Chaos | None = None
    settings: Callable[[], Sequence[SettingSchema]] = list


def _service(request: Request) -> UseCases:
    service: UseCases = request.app.state.service
    return service


def _deployment(request: Request) -> Deployment:
    deployment: Deployment = request.app.state.deployment
    return deployment


def refused(*problems: Problem) -> PydanticCustomError:
    """An error of a model that carries Problems, with places relative to its own."""
    return PydanticCustomError("refused", "refused", {"problems": problems})


def _validator(reader: Reader) -> Reader:
    def read(value: Any) -> object:
        try:
            return reader(value)
        except InvalidInput as error:
            raise refused(*error.problems) from None

    return read


def reads(reader: Reader, described: Any) -> Any:
    """Validate a field by a reader of documents; the OpenAPI document describes it as the type `described`."""
    return PlainValidator(_validator(reader), json_schema_input_type=described)


JobName = Annotated[str, Path(description="The job.")]
NodeName = Annotated[str, Path(description="The node.")]
RunId = Annotated[str, Path(description="The run.")]
Uses = Annotated[UseCases, Depends(_service)]
Deployed = Annotated[Deployment, Depends(_deployment)]
INSTANT = BeforeValidator(_validator(lambda value: None if value is None else instant(value)))
Since = Annotated[
    datetime | None,
    INSTANT,
    Query(description="Due from this instant on, for example 2026-11-21T02:00:00Z."),
]
Until = Annotated[datetime | None, INSTANT, Query(description="Due before this instant.")]
From = Annotated[
    datetime | None,
    INSTANT,
    Query(description="Not older than this instant, for example 2026-11-21T02:00:00Z."),
]
Before = Annotated[datetime | None, INSTANT, Query(description="Older than this instant.")]
At = Annotated[
    datetime | None,
    INSTANT,
    Query(description="The instant; without it the latest one that was due."),
]
HourAt = Annotated[
    datetime | None,
    INSTANT,
    Query(description="Also return the minutes of the hour with this instant, for example 2026-11-22T02:00:00Z."),
]


async def _body(request: Request) -> object:
    """An empty body is an empty object. Raises Unreadable, and InvalidInput when it is nested too deep."""
    content = await request.body()
    if not content:
        return {}
    try:
        found = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise Unreadable(f"the body is not JSON: {error}") from None
    try:
        # It reads 1,024 levels, on which recursive code would fail, but writes only 254.
        orjson.dumps(found)
    except orjson.JSONEncodeError:
        raise InvalidInput("the body is nested more than 250 levels deep") from None
    return found


Body = Annotated[object, Depends(_body)]


class Input(BaseModel):
    """The base of bodies. The docstrings below the fields describe them; `json_schema_extra` may have `examples`."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, arbitrary_types_allowed=True)

    @model_validator(mode="before")
    @classmethod
    def _check_size(cls, content: object) -> object:
        # pydantic would make an error of each unknown key.
        if isinstance(content, Mapping) and len(content) > MOST_KEYS:
            raise refused(
                Problem("", f"the body has {len(content):,} keys", f"known keys: {', '.join(cls.model_fields)}")
            )
        return content


Model = TypeVar("Model", bound=Input)


def body(model: type[Model]) -> Any:
    """A dependency that parses the body. Raises InvalidInput with everything that is wrong."""

    async def parsed(content: Body) -> Model:
        try:
            return model.model_validate(content)
        except ValidationError as error:
            found = error.errors(include_url=False)
        order = {name: n for n, name in enumerate(content)} if isinstance(content, Mapping) else {}
        found.sort(key=lambda one: order.get(one["loc"][0] if one["loc"] else "", len(order)))
        raise InvalidInput(first_problems(found, partial(_problems, model)))

    parsed.model = model  # type: ignore[attr-defined]
    return Depends(parsed)


def body_of(dependant: Dependant) -> type[Input] | None:
    """The model of the body that a route takes."""
    models = (getattr(dependency.call, "model", None) for dependency in dependant.dependencies)
    return next((model for model in models if model is not None), None)


def _problems(model: type[Input], error: Mapping[str, Any]) -> list[Problem]:
    if error["type"] != "extra_forbidden":
        return problems_of(error, error["loc"])
    *path, key = error["loc"]
    owner: Any = model
    for part in path:
        owner = get_args(owner)[0] if isinstance(part, int) else owner.model_fields[part].annotation
    near = nearest(key, owner.model_fields)
    remedy = f"did you mean {near}?" if near else f"known keys: {', '.join(owner.model_fields)}"
    return [Problem(place_of(error["loc"]), "unknown key", remedy)]


def _concealed(longest: int) -> Reader:
    """Text whose value no error repeats."""

    def read(value: object) -> str:
        if not isinstance(value, str):
            raise InvalidInput("expected text")
        if len(value) > longest:
            raise InvalidInput(f"is longer than {longest:,} characters")
        return text(value)

    return read


def secret_text(longest: int) -> Any:
    """Validate text of at most `longest` characters, such as a password, without repeating it in an error."""
    return reads(_concealed(longest), str)


Note = Annotated[str, Field(max_length=1000)]
Text = Annotated[str | None, reads(text, str)]
Instant = Annotated[datetime | None, reads(instant, str)]
Arguments = Annotated[dict[str, object] | None, reads(json_mapping, dict[str, object])]


def _expected(
    if_match: Annotated[
        str | None, Header(max_length=100, description='The `ETag` of the job as last read, for example `"3"`.')
    ] = None,
) -> int | None:
    if if_match is None:
        return None
    match = ETAG.fullmatch(if_match.strip())
    if match is None:
        raise InvalidInput(Problem("If-Match", "is not an ETag of a job", 'send that of a response, for example "3"'))
    return int(match[1])


Expected = Annotated[int | None, Depends(_expected)]


def etag_of(version: int) -> str:
    return f'"{version}"'


def takes(name: str, example: object, *, required: bool = True) -> dict[str, Any]:
    """Describe a body that is not an Input: the schema of this name."""
    content = {"schema": {"$ref": f"#/components/schemas/{name}"}, "example": example}
    return {"requestBody": {"required": required, "content": {"application/json": content}}}
