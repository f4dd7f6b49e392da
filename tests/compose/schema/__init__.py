"""The Compose Specification's JSON schema: what `docker compose config` would refuse."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

SCHEMA = Path(__file__).with_name("compose-spec.json")


def errors_of(tree: object) -> list[str]:
    """Return what is wrong with a compose file, each with its place."""
    validator = jsonschema.Draft7Validator(json.loads(SCHEMA.read_text()))
    return [f"{'/'.join(map(str, error.absolute_path))}: {error.message}" for error in validator.iter_errors(tree)]
