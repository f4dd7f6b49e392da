"""A compose file, read: what each service runs, with what, and after whom.

Only what the harness can honour is accepted: a key that it does not know is an error, never silently left out.
Specification: https://github.com/compose-spec/compose-spec/blob/main/spec.md
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.compose.service import ComposeError, HealthCheck, Joined, Mount, Service

HONOURED = {
    "build", "cap_add", "cap_drop", "command", "configs", "depends_on", "deploy", "entrypoint", "environment",
    "healthcheck", "hostname", "image", "init", "network_mode", "networks", "read_only", "restart", "scale",
    "security_opt", "stop_grace_period", "tmpfs", "user", "volumes", "working_dir",
}  # fmt: skip
# Limits and names that mean nothing to a process, and ports, for which see `Stack.address`.
LEFT_OUT = {
    "container_name", "cpus", "expose", "labels", "logging", "mem_limit", "pids_limit", "platform",
    "ports", "pull_policy", "shm_size", "ulimits",
}  # fmt: skip
VARIABLE = re.compile(r"\$(?:(?P<dollar>\$)|(?P<plain>\w+)|\{(?P<name>\w+)(?:(?P<how>:?[-?+])(?P<other>[^}]*))?\})")
DURATION = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def read_project(path: Path, variables: Mapping[str, str], *overrides: Path) -> dict[str, Service]:
    """Return the services of a compose file and its overrides, paths resolved beside the first and variables put in."""
    tree = yaml.safe_load(path.read_text())
    for override in overrides:
        tree = merged(tree, yaml.safe_load(override.read_text()))
    tree = filled_tree(tree, variables)
    return {name: _service(name, body, tree, path.parent) for name, body in tree["services"].items()}


def merged(tree: Any, override: Any) -> Any:
    """Put an override over a tree, as ``docker compose -f FILE -f OVERRIDE`` does.

    >>> merged({"a": {"command": ["x"], "volumes": ["v"]}}, {"a": {"command": ["y"], "volumes": ["w"], "b": 1}})
    {'a': {'command': ['y'], 'volumes': ['v', 'w'], 'b': 1}}
    """
    if not isinstance(tree, dict) or not isinstance(override, dict):
        return override
    both = {**tree, **{key: merged(tree[key], value) if key in tree else value for key, value in override.items()}}
    for key in ("volumes", "configs", "tmpfs"):
        if isinstance(tree.get(key), list) and isinstance(override.get(key), list):
            both[key] = tree[key] + override[key]
    return both


def seconds(duration: str | float) -> float:
    """Return the length of a duration such as 1m30s.

    >>> seconds("1m30s"), seconds("500ms")
    (90.0, 0.5)
    """
    parts = re.findall(r"([\d.]+)(us|ms|s|m|h)", str(duration))
    if "".join(a + b for a, b in parts) != str(duration):
        raise ComposeError(f"{duration!r} is not a duration such as 10s or 1m30s")
    return sum(float(number) * DURATION[unit] for number, unit in parts)


def filled(text: str, variables: Mapping[str, str]) -> str:
    """Put variables into a text.

    >>> filled("${A:-x} ${B-y} $C $$D", {"A": "", "B": "", "C": "c"})
    'x  c $D'
    """

    def value(match: re.Match[str]) -> str:
        if match["dollar"]:
            return "$"
        name, how, other = match["plain"] or match["name"], match["how"] or "", match["other"] or ""
        given = variables.get(name)
        missing = given is None or (":" in how and not given)
        if how.endswith("+"):
            return "" if missing else other
        if missing and how.endswith("?"):
            raise ComposeError(f"variable {name} is not set: {other}")
        return (other if how.endswith("-") else "") if missing else str(given)

    return VARIABLE.sub(value, text)


def filled_tree(tree: Any, variables: Mapping[str, str]) -> Any:
    """Put variables into every text of a YAML tree."""
    if isinstance(tree, dict):
        return {key: filled_tree(value, variables) for key, value in tree.items()}
    if isinstance(tree, list):
        return [filled_tree(value, variables) for value in tree]
    return filled(tree, variables) if isinstance(tree, str) else tree


def _service(name: str, body: dict[str, Any], tree: dict[str, Any], folder: Path) -> Service:
    unknown = sorted(set(body) - HONOURED - LEFT_OUT)
    if unknown:
        raise ComposeError(f"service {name!r}: the harness cannot do {', '.join(unknown)}")
    deploy = body.get("deploy") or {}
    return Service(
        name=name,
        build=_build(body, tree, folder),
        entrypoint=_words(body.get("entrypoint")),
        command=_words(body.get("command")),
        environment=_environment(body.get("environment") or {}),
        mounts=(*_volumes(body, tree, folder), *_configs(body, tree, folder)),
        tmpfs={entry.partition(":")[0]: entry.partition(":")[2] for entry in _many(body.get("tmpfs"))},
        networks=_networks(body, tree.get("networks") or {}),
        depends_on=_depends_on(body.get("depends_on") or {}),
        health=_health(body.get("healthcheck")),
        restart=str(body.get("restart") or "no"),
        replicas=int(body.get("scale") or deploy.get("replicas") or 1),
        grace=seconds(body.get("stop_grace_period", "10s")),
        user=str(body.get("user") or ""),
        working_dir=body.get("working_dir") or "",
        hostname=body.get("hostname") or "",
        read_only=bool(body.get("read_only")),
        init=bool(body.get("init")),
        capabilities=tuple(body.get("cap_add") or ()) if body.get("cap_drop") == ["ALL"] else None,
    )


def _many(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or [])


def _words(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    return tuple(shlex.split(value)) if isinstance(value, str) else tuple(str(word) for word in value)


def _build(body: dict[str, Any], tree: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return how the image is built: by this service, or by another one that gives it the same name."""
    others = [one for one in tree["services"].values() if one.get("build") and one.get("image") == body.get("image")]
    value = body.get("build") or (others[0]["build"] if body.get("image") and others else {})
    build = {"context": value} if isinstance(value, str) else dict(value)
    return {**build, "context": (folder / build.get("context", ".")).resolve()} if build else {}


def _environment(value: Any) -> dict[str, str]:
    pairs = dict(entry.partition("=")[::2] for entry in value) if isinstance(value, list) else value
    return {key: _scalar(one) for key, one in pairs.items()}


def _scalar(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def _depends_on(value: Any) -> dict[str, str]:
    if isinstance(value, list):
        return dict.fromkeys(value, "service_started")
    return {name: body["condition"] for name, body in value.items()}


def _networks(body: dict[str, Any], declared: dict[str, Any]) -> dict[str, Joined]:
    if body.get("network_mode") == "none":
        return {}
    given = body.get("networks") or ["default"]
    bodies = given if isinstance(given, dict) else dict.fromkeys(given)
    joined = {}
    for name, one in bodies.items():
        pools = ((declared.get(name) or {}).get("ipam") or {}).get("config") or [{}]
        subnet = pools[0].get("subnet", "").rpartition(".")[0]
        joined[name] = Joined((one or {}).get("ipv4_address", ""), subnet)
    return joined


def _volumes(body: dict[str, Any], tree: dict[str, Any], folder: Path) -> list[Mount]:
    mounts = []
    for entry in body.get("volumes") or []:
        if isinstance(entry, str):
            source, target, *mode = entry.split(":")
            read_only = "ro" in ",".join(mode).split(",")
        else:
            source, target, read_only = entry.get("source", ""), entry["target"], bool(entry.get("read_only"))
        if source.startswith((".", "/", "~")):
            mounts.append(Mount(target, (folder / Path(source).expanduser()).resolve(), read_only=read_only))
        elif source in (tree.get("volumes") or {}):
            mounts.append(Mount(target, volume=source, read_only=read_only))
        else:
            raise ComposeError(f"volume {source!r} of {entry!r} is not declared under `volumes`")
    return mounts


def _configs(body: dict[str, Any], tree: dict[str, Any], folder: Path) -> list[Mount]:
    mounts = []
    for entry in body.get("configs") or []:
        name = entry if isinstance(entry, str) else entry["source"]
        target = f"/{name}" if isinstance(entry, str) else entry.get("target", f"/{name}")
        config = tree["configs"][name]
        source = (folder / config["file"]).resolve() if "file" in config else None
        mounts.append(Mount(target, source, content=config.get("content", ""), read_only=True))
    return mounts


def _health(value: dict[str, Any] | None) -> HealthCheck | None:
    if not value or value.get("disable"):
        return None
    test = value["test"]
    if isinstance(test, str):
        command = ("/bin/sh", "-c", test)
    else:
        command = tuple(test[1:]) if test[0] == "CMD" else ("/bin/sh", "-c", test[1])
    times = {
        key: seconds(value[key]) for key in ("interval", "timeout", "start_period", "start_interval") if key in value
    }
    return HealthCheck(command, retries=int(value.get("retries", 3)), **times)
