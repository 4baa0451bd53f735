"""The OpenAPI 3.1 document: what FastAPI derives from the routes, and what it cannot know.

It adds the login and the role of each route, the problem document of every error, and the schemas of what routes read
from their bodies. The forms of a job as it may be written are those of the job as it is shown, with hardly anything
required; so the two cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute, iter_route_contexts
from pydantic import TypeAdapter

from cronflow.api.access import needed_by
from cronflow.api.field_docs import describe_fields
from cronflow.api.problems import MEDIA_TYPE, ProblemSchema, title
from cronflow.api.responses import PREFIX
from cronflow.api.routes import logins, management, runs, schedules
from cronflow.api.routes.jobs import MOST_PLANNED, RunInput
from cronflow.documents import JobForm
from cronflow.documents.alerts import AlertForm
from cronflow.schemas import Schema

Document = dict[str, Any]

REF = "#/components/schemas/"
DESCRIPTION = """
Cron for a cluster. Instants are ISO 8601 in UTC; lengths of time say their unit in their name.

Lists are `{items, next_cursor}`: give `next_cursor` back as `cursor` until it is null. Every error is a problem
document (RFC 9457), `errors` has everything that is wrong with an input. Roles: a viewer reads; an operator runs,
pauses, retries, cancels and drains; an admin changes jobs, users, keys, secrets and alerts.
""".strip()
TAGS = {
    "jobs": "What to run and when.",
    "runs": "What ran, what runs, and what to do about what failed.",
    "logs": "What runs wrote.",
    "schedules": "What a schedule means, before a job has it.",
    "nodes": "Who is up.",
    "cluster": "Who leads, and how full the cluster is.",
    "events": "What happened in the cluster.",
    "alerts": "Who is told when something goes wrong.",
    "auth": "Logging in and out.",
    "users": "Who may log in.",
    "api-keys": "What scripts log in with.",
    "secrets": "What jobs keep secret: names go out, values only in.",
    "audit": "Who changed what.",
    "chaos": "Breaking a development cluster on purpose; only `cronflow dev` offers it.",
    "probes": "For load balancers; without a login.",
}
ALWAYS = (401, 422, 429, 500, 503)
WITH_BODY = (400, 413)
MEANING = {
    400: "What was sent cannot be read.",
    401: "A login is needed.",
    403: "The role is not enough.",
    404: "There is no such thing.",
    405: "The path has no such method.",
    409: "It exists, has ended, or somebody has changed it meanwhile.",
    413: "The body is larger than 1 MiB.",
    422: "The input cannot be accepted; `errors` says why.",
    429: "Too many requests; `Retry-After` says when to ask again.",
    500: "This should not have happened.",
    503: "Redis or MongoDB is away; `Retry-After` says when to ask again.",
}
RETRY_AFTER = (429, 503)
# What a form cannot do without when it is written; all else has a default.
WRITTEN: Mapping[str, list[str]] = {
    "JobForm": ["name", "run"],
    "CronForm": ["cron"],
    "EveryForm": ["every"],
    "OnceForm": ["at"],
    "PythonForm": ["python"],
    "ShellForm": ["shell"],
    "ArgvForm": ["argv"],
    "HttpForm": ["http"],
    "RequestForm": ["url"],
    "BackoffForm": [],
    "DelaysForm": ["delays"],
    "MisfireForm": [],
    "AlertForm": ["name", "on", "webhook"],
    "WebhookForm": ["url"],
}


# A field that a shape inherits is described where it was written.
INHERITED = {
    "JobSchema": "JobForm",
    "AlertSchema": "AlertForm",
    "RunDetailSchema": "RunSchema",
    "NodeDetailSchema": "NodeSchema",
    "NewKeySchema": "KeySchema",
    "BulkCancelInput": "BulkInput",
    "BulkRetryInput": "BulkInput",
    "BulkAckInput": "BulkInput",
}


class _Written(Schema):
    """Where the forms of a job and of an alert come from."""

    job: JobForm
    alert: AlertForm


def describe(api: FastAPI) -> Document:
    """The document, made once."""
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
        _components(made)
        for route, operation in _operations(api, made):
            _complete(route, operation)
        api.openapi_schema = made
    return api.openapi_schema


def _operations(api: FastAPI, made: Document) -> Iterator[tuple[APIRoute, Document]]:
    for context in iter_route_contexts(api.routes):
        route = context.original_route
        if isinstance(route, APIRoute) and route.include_in_schema:
            for method in route.methods or ():
                yield route, made["paths"][context.path_format][method.lower()]


def _components(made: Document) -> None:
    components = made.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    inputs = {
        kind.__name__: kind
        for kind in (
            RunInput,
            runs.CancelInput,
            runs.RetryInput,
            runs.AckInput,
            runs.BulkCancelInput,
            runs.BulkRetryInput,
            runs.BulkAckInput,
            schedules.PreviewInput,
            logins.LoginInput,
            logins.RefreshInput,
            management.UserInput,
            management.UserPatch,
            management.KeyInput,
            management.SecretInput,
        )
    }
    others = (_Written, runs.BulkInput, ProblemSchema)
    adapters = [(kind, "validation", TypeAdapter(kind)) for kind in (*inputs.values(), *others)]
    _, made_here = TypeAdapter.json_schemas(adapters, ref_template=REF + "{model}")  # type: ignore[arg-type]
    found = made_here["$defs"]
    describe_fields(schemas)
    describe_fields(found)
    forms = {name: _written(found[name], required) for name, required in WRITTEN.items()}
    for name in inputs:
        schemas[name] = _strict(found[name])
    for name, form in forms.items():
        schemas[name.replace("Form", "Input")] = form
    for name in ("ProblemSchema", "ErrorSchema", "FilterInput"):
        schemas[name] = _strict(found[name]) if name == "FilterInput" else found[name]
    schemas["PreviewInput"] = _inputs(schemas["PreviewInput"])
    schemas["JobInput"]["description"] = "What to run and when. Whatever is left out has its default."
    schemas["JobReplacement"] = {**schemas["JobInput"], "title": "JobReplacement", "required": ["run"]}
    schemas["AlertReplacement"] = {
        **schemas["AlertInput"],
        "title": "AlertReplacement",
        "required": ["on", "webhook"],
    }
    schemas["JobPatch"] = {
        "type": "object",
        "title": "JobPatch",
        "description": "A part of a job; null removes what was given.",
        "additionalProperties": True,
    }
    schemas["PlanInput"] = {
        "type": "object",
        "title": "PlanInput",
        "description": "Jobs, to compare with those that are stored or to put in their place.",
        "properties": {
            "jobs": {
                "type": "array",
                "items": {"$ref": REF + "JobInput"},
                "maxItems": MOST_PLANNED,
                "description": "The jobs.",
            }
        },
        "required": ["jobs"],
        "additionalProperties": False,
    }
    for name, base in INHERITED.items():
        for field, described in {**found, **schemas}[base]["properties"].items():
            schemas[name]["properties"][field].setdefault("description", described["description"])
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


def _problem(status: int) -> Document:
    example = {"type": "about:blank", "title": title(status), "status": status, "detail": MEANING[status]}
    made: Document = {
        "description": MEANING[status],
        "content": {MEDIA_TYPE: {"schema": {"$ref": REF + "ProblemSchema"}, "example": example}},
    }
    if status in RETRY_AFTER:
        made["headers"] = {"Retry-After": {"description": "Seconds.", "schema": {"type": "string"}}}
    return made


def _complete(route: APIRoute, operation: Document) -> None:
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
    """The same with references to the forms as they may be written; what only the system writes is left out."""
    if isinstance(part, Mapping):
        if "anyOf" in part:
            part = {**part, "anyOf": [one for one in part["anyOf"] if one.get("$ref") != f"{REF}SystemForm"]}
        return {
            key: _written_ref(value) if key == "$ref" else _inputs(value) for key, value in deepcopy(dict(part)).items()
        }
    return [_inputs(one) for one in part] if isinstance(part, list) else part


def _written_ref(reference: str) -> str:
    return reference.replace("Form", "Input") if reference.removeprefix(REF) in WRITTEN else reference
