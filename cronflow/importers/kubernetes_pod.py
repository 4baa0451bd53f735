"""The pod of a CronJob as the program that a node runs: its container's command, environment and resources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from cronflow.domain.limits import format_size
from cronflow.domain.secret import NAME
from cronflow.importers.job_draft import JobDraft, Refused, listed, mapping, mappings, text_labels

_POD = {"containers", "initContainers", "nodeSelector", "restartPolicy"}
_CONTAINER = {"name", "image", "command", "args", "workingDir", "env", "envFrom", "resources"}
_REFERENCE = re.compile(r"\$(\$)?\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_SUFFIXES = {
    "m": Decimal("0.001"),
    "": Decimal(1),
    "k": Decimal(10) ** 3,
    "M": Decimal(10) ** 6,
    "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12,
    "Ki": Decimal(2) ** 10,
    "Mi": Decimal(2) ** 20,
    "Gi": Decimal(2) ** 30,
    "Ti": Decimal(2) ** 40,
}
_QUANTITY = re.compile(r"([0-9.]+(?:[eE][0-9]+)?)(m|k|M|G|T|Ki|Mi|Gi|Ti|)")


def read_pod(draft: JobDraft, pod: Mapping[str, Any]) -> None:
    """Set `run`, `require` and `resources` of the job. Raises Refused."""
    containers = mappings(pod.get("containers"), "containers")
    if pod.get("initContainers"):
        remedy = "make a job of each container, and let one follow the other with after"
        raise Refused("the pod has init containers, and a job runs one program", remedy)
    if len(containers) != 1:
        remedy = "make a job of each container, or one script that runs their programs"
        raise Refused(f"the pod has {len(containers)} containers, and a job runs one program", remedy)
    container = containers[0]
    env = _environment(draft, container)
    run = _command(draft, container, env)
    if container.get("workingDir"):
        run["cwd"] = str(container["workingDir"])
    if env:
        run["env"] = env
    image = container.get("image", "not named")
    draft.set("run", run, f"The image was {image}. Its programs and files must be on the nodes.")
    selector = text_labels(pod.get("nodeSelector"))
    if selector:
        draft.set("require", selector, "Start nodes with these labels: cronflow node --label KEY=VALUE")
    _resources(draft, container)
    rest = [key for key in pod if key not in _POD] + [f"containers.{key}" for key in container if key not in _CONTAINER]
    draft.left_out("Left out, because a run is a process on a node and not a pod", rest)


def _command(draft: JobDraft, container: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, Any]:
    command = container.get("command")
    if not command:
        remedy = f"add command: with the entrypoint of the image {container.get('image', '')}".rstrip()
        raise Refused("the container has no command, so its program is only known to its image", remedy)
    words = [str(word) for word in [*listed(command, "command"), *listed(container.get("args"), "args")]]
    missing: set[str] = set()

    def value(found: re.Match[str]) -> str:
        if found[1]:
            return found[0][1:]
        if found[2] not in env or "${secret:" in env[found[2]]:
            missing.add(found[2])
            return found[0]
        return env[found[2]]

    argv = [_REFERENCE.sub(value, word) for word in words]
    if missing:
        names = ", ".join(f"$({name})" for name in sorted(missing))
        draft.note(f"Kubernetes replaces {names}; write the value, or let a shell read it from env.", "run")
    return {"argv": argv}


def _environment(draft: JobDraft, container: Mapping[str, Any]) -> dict[str, str]:
    env: dict[str, str] = {}
    for one in mappings(container.get("env"), "env"):
        name, source = str(one.get("name", "")), one.get("valueFrom")
        if source is None:
            env[name] = str(one.get("value") or "")
            continue
        secret = source.get("secretKeyRef") if isinstance(source, Mapping) else None
        if isinstance(secret, Mapping):
            stored = name if NAME.fullmatch(name) else "SECRET"
            env[name] = f"${{secret:{stored}}}"
            where = f"key {secret.get('key')} of the secret {secret.get('name')}"
            draft.note(f"{name}: store it with `cronflow secrets set {stored}`. It was {where}.", "run")
        else:
            kind = ", ".join(map(str, source)) if isinstance(source, Mapping) else str(source)
            draft.note(f"The variable {name} is left out; it came from {kind}. Add it to env.", "run")
    for one in mappings(container.get("envFrom"), "envFrom"):
        place = next((f"{key} {_name(value)}" for key, value in one.items() if key != "prefix"), "envFrom")
        draft.note(f"Variables are left out that came from {place}. Add those that the program needs to env.", "run")
    return env


def _name(value: object) -> str:
    return str(value.get("name", "")) if isinstance(value, Mapping) else str(value)


def _resources(draft: JobDraft, container: Mapping[str, Any]) -> None:
    resources = mapping(container.get("resources"), "resources")
    requests, limits = (mapping(resources.get(key), f"resources.{key}") for key in ("requests", "limits"))
    # As in Kubernetes, a limit without a request is the request, too.
    wanted = {**limits, **requests}
    found: dict[str, Any] = {}
    if "cpu" in wanted:
        found["cpu"] = float(_quantity(wanted["cpu"]))
    if "memory" in wanted:
        found["memory"] = format_size(int(_quantity(wanted["memory"])))
    if found:
        draft.set("resources", found, "What each run reserves of its node, as requested from Kubernetes.")
    if limits:
        written = ", ".join(f"{key} {value}" for key, value in limits.items())
        draft.note(f"No limit is enforced ({written}); limits of a command are per process: run.limits.", "run")
    draft.left_out("Resources that were left out", [key for key in wanted if key not in ("cpu", "memory")])


def _quantity(value: object) -> Decimal:
    found = _QUANTITY.fullmatch(str(value))
    number = found[1] if found else ""
    try:
        return Decimal(number) * _SUFFIXES[found[2] if found else ""]
    except InvalidOperation:
        raise Refused(f"{value!r} is not a quantity", "correct the resources of the container") from None
