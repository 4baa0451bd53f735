"""The OpenAPI 3.1 document: what FastAPI derives from the routes, and what it cannot derive.

It adds the login and the role of each route, the problem document of every error, and the schemas of request bodies.
The forms in which users write a job are those in which it is shown, with fewer required keys.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute, iter_route_contexts
from pydantic import TypeAdapter

from cronflow.api.access import needed_by
from cronflow.api.bodies import Input, body_of, takes
from cronflow.api.field_docs import describe_fields
from cronflow.api.problems import MEDIA_TYPE, ProblemSchema, title
from cronflow.api.responses import PREFIX
from cronflow.documents import alerts, calendars, jobs, limits
from cronflow.schemas import Schema

Document = dict[str, Any]

REF = "#/components/schemas/"
DESCRIPTION = """
Cron for a cluster. Instants are ISO 8601 in UTC; names of durations end with their unit.

Lists are `{items, next_cursor}`: send `next_cursor` back as `cursor` until it is null. Every error is a problem
document (RFC 9457); `errors` lists the problems of an input, at most 20. Roles: a viewer reads; an operator runs,
pauses, retries, cancels and drains; an editor also changes jobs, calendars and limits; an admin also changes users,
keys, secrets and alerts. Everybody sees and revokes their own sessions.
""".strip()
TAGS = {
    "jobs": "What to run and when.",
    "backfills": "Runs for instants that have passed, requested together.",
    "runs": "Past and present runs, and what to do about failed ones.",
    "logs": "Log lines of runs.",
    "schedules": "Preview a schedule before a job has it.",
    "nodes": "The nodes that are up.",
    "cluster": "The leader, and the load of the cluster.",
    "events": "What happened in the cluster.",
    "post-mortem": "What a time in the past was like.",
    "calendars": "Days and windows of time that schedules share.",
    "limits": "Limits that jobs share.",
    "alerts": "Notifications when something goes wrong.",
    "auth": "Logging in and out.",
    "users": "Who may log in.",
    "sessions": "Who is logged in.",
    "api-keys": "Credentials for scripts.",
    "secrets": "Secrets of jobs: names can be read, values only written.",
    "audit": "Who changed what.",
    "chaos": "Break a development cluster on purpose; only with `cronflow dev`.",
    "probes": "For load balancers; no login required.",
}
ALWAYS = (401, 422, 429, 500, 503)
WITH_BODY = (400, 413)
MEANING = {
    400: "The body cannot be parsed.",
    401: "Login required.",
    403: "The role does not allow this.",
    404: "Not found.",
    405: "The path does not support this method.",
    409: "It already exists, has ended, or was changed in the meantime.",
    413: "The body is larger than 1 MiB, or 4 KiB below `/auth`.",
    422: "The input is invalid; `errors` lists the first 20 problems.",
    429: "Too many requests; `Retry-After` says when to retry.",
    500: "Internal error.",
    503: "Redis or MongoDB is unavailable; `Retry-After` says when to retry.",
}
RETRY_AFTER = (429, 503)
WRITTEN: Mapping[str, list[str]] = {
    table.form.__name__: table.required for table in (*jobs.TABLES, *alerts.TABLES, *limits.TABLES, *calendars.TABLES)
}
"""The required keys of each form when a user writes it; all others have defaults."""


class _Written(Schema):
    """Brings the forms of jobs, alerts, limits and calendars into the document."""

    job: jobs.JobForm
    alert: alerts.AlertForm
    limit: limits.LimitForm
    calendar: calendars.CalendarForm


def describe(api: FastAPI) -> Document:
    """The document; it is generated once."""
    if api.openapi_schema is None:
        made = get_openapi(
            title="CronFlow",
            version=api.version,
            openapi_version="3.1.0",
            description=DESCRIPTION,
            routes=api.routes,
        )
        used = {tag for operations in made["paths"].values() for one in operations.values() for tag in one["tags"]}
        made["tags"] = [{"name": name, "description": text} for name, text in TAGS.items() if name in used]
        bodies = {model for route, _ in _operations(api, made) if (model := body_of(route.dependant)) is not None}
        examples = _components(made, bodies)
        for route, operation in _operations(api, made):
            _complete(route, operation, examples)
        api.openapi_schema = made
    return api.openapi_schema


def _operations(api: FastAPI, made: Document) -> Iterator[tuple[APIRoute, Document]]:
    for context in iter_route_contexts(api.routes):
        route = context.original_route
        if isinstance(route, APIRoute) and route.include_in_schema:
            for method in route.methods or ():
                yield route, made["paths"][context.path_format][method.lower()]


def _components(made: Document, bodies: Collection[type[Input]]) -> dict[str, object]:
    """Complete the components. Returns the example of each body."""
    components = made.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    kinds: tuple[Any, ...] = (*sorted(bodies, key=lambda model: model.__name__), _Written, ProblemSchema)
    adapters: list[Any] = [(kind, "validation", TypeAdapter(kind)) for kind in kinds]
    _, made_here = TypeAdapter.json_schemas(adapters, ref_template=REF + "{model}")
    found = made_here["$defs"]
    describe_fields(schemas)
    describe_fields(found)
    forms = {name: _written(found[name], required) for name, required in WRITTEN.items()}
    examples = {}
    for name in (*(model.__name__ for model in bodies), "FilterInput", "JobFilterInput", "MoveInput", "PruneInput"):
        schemas[name] = _inputs(found[name])
        [examples[name]] = schemas[name].pop("examples", [None])
        for field in schemas[name]["properties"].values():
            if field.get("default", ...) is None:
                del field["default"]
    for name, form in forms.items():
        schemas[name.replace("Form", "Input")] = form
    for name in ("ProblemSchema", "ErrorSchema"):
        schemas[name] = found[name]
    # An alert has one of two receivers.
    schemas["AlertInput"]["required"] = ["name", "on"]
    schemas["JobInput"]["description"] = "What to run and when. Keys that are left out have their defaults."
    schemas["JobReplacement"] = {**schemas["JobInput"], "title": "JobReplacement", "required": ["run"]}
    schemas["AlertReplacement"] = {
        **schemas["AlertInput"],
        "title": "AlertReplacement",
        "required": ["on"],
    }
    schemas["LimitReplacement"] = {**schemas["LimitInput"], "title": "LimitReplacement", "required": []}
    schemas["CalendarReplacement"] = {**schemas["CalendarInput"], "title": "CalendarReplacement", "required": []}
    schemas["JobPatch"] = {
        "type": "object",
        "title": "JobPatch",
        "description": "Some keys of a job; null removes a key.",
        "additionalProperties": True,
    }
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    components["schemas"] = dict(sorted(schemas.items()))
    components["responses"] = {f"Problem{status}": _problem(status) for status in MEANING}
    components["securitySchemes"] = {
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "description": "An access token from `POST /api/v1/auth/token`, or an API key.",
        }
    }
    return examples


def _problem(status: int) -> Document:
    example = {"type": "about:blank", "title": title(status), "status": status, "detail": MEANING[status]}
    made: Document = {
        "description": MEANING[status],
        "content": {MEDIA_TYPE: {"schema": {"$ref": REF + "ProblemSchema"}, "example": example}},
    }
    if status in RETRY_AFTER:
        made["headers"] = {"Retry-After": {"description": "Seconds.", "schema": {"type": "string"}}}
    return made


def _complete(route: APIRoute, operation: Document, examples: Mapping[str, object]) -> None:
    model = body_of(route.dependant)
    if model is not None:
        required = any(field.is_required() for field in model.model_fields.values())
        operation |= takes(model.__name__, examples[model.__name__], required=required)
    role = needed_by(route.dependant)
    statuses = {status for status in map(int, operation["responses"]) if status >= 400}
    if route.path.startswith(PREFIX):
        statuses |= {*ALWAYS, *(WITH_BODY if "requestBody" in operation else ())}
    if role is not None:
        operation["security"] = [{"bearer": []}]
        operation["x-role"] = role.value
        operation["description"] = f"{operation.get('description', '')}\n\nNeeds the role `{role.value}`.".strip()
        statuses.add(403)
    for status in sorted(statuses):
        if route.path.startswith(PREFIX) or status != 422:
            operation["responses"][str(status)] = {"$ref": f"#/components/responses/Problem{status}"}
    created = operation["responses"].get("201")
    if created is not None and "content" not in created:
        operation["responses"]["201"] = {**operation["responses"]["200"], "description": "Created"}


def _written(form: Document, required: list[str]) -> Document:
    made = _strict(_inputs(form))
    made["required"] = required
    made["title"] = made["title"].replace("Form", "Input")
    if not required:
        del made["required"]
    return made


def _strict(schema: Document) -> Document:
    return {**schema, "additionalProperties": False}


def _inputs(part: Any) -> Any:
    """The same with references to the forms that users write; those that only the system writes are left out."""
    if isinstance(part, Mapping):
        if "anyOf" in part:
            part = {**part, "anyOf": [one for one in part["anyOf"] if one.get("$ref") != f"{REF}SystemForm"]}
        return {
            key: _written_ref(value) if key == "$ref" else _inputs(value) for key, value in deepcopy(dict(part)).items()
        }
    return [_inputs(one) for one in part] if isinstance(part, list) else part


def _written_ref(reference: str) -> str:
    return reference.replace("Form", "Input") if reference.removeprefix(REF) in WRITTEN else reference
