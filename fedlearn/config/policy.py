"""What the owner of a node allows: settings that no server can change."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, ValidationError, field_validator

from fedlearn.config.fields import Positive, Settings
from fedlearn.plugging.options import allowed_by
from fedlearn.words.errors import UsageError, quoted

SIMULATED = "simulated"
"""The key of a node's config that an engine of simulations sets to true: the node is made up, and nobody's."""


class Policy(Settings):
    """What a node does for servers at most; it binds a node that has a ledger. A number in quotes is no number."""

    model_config = ConfigDict(strict=True)

    largest_epsilon: Positive
    """Largest epsilon in all, over all runs and servers."""
    epsilon_of_a_run: Positive | None = None
    """Largest epsilon of one run; as much as in all unless given. A run is its settings: a server can ask for many."""
    seeded_noise: bool = False
    """Whether noise may be seeded, which protects nobody."""
    public_sizes: bool = False
    """Whether a server may be told how many records there are: each loss then counts double."""
    least_records: Annotated[int, Field(ge=0)] = 0
    """With fewer records in its whole table the node takes no part. Whether it has so many, everybody may know."""
    most_questions: Annotated[int, Field(ge=1)] = 10_000
    """Questions in all that are answered, as many nearly free ones would fill the disk: each answer is kept."""
    models: tuple[str, ...] = ()
    """Models that may be trained, by name; unless given, the private ones that fedlearn has."""

    @field_validator("models", mode="before")
    @classmethod
    def _names(cls, given: object) -> object:
        """Take names in one text, as a node's config holds them."""
        if isinstance(given, str):
            return tuple(name.strip() for name in given.split(",") if name.strip())
        return tuple(given) if isinstance(given, list) else given

    @classmethod
    def of(cls, given: Mapping[str, Any], *, where: str) -> Self:
        """Return a policy of plain values.

        Raises
        ------
        UsageError
            Naming what is wrong, and `where`.
        """
        try:
            return cls(**given)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"])) or "policy"
            value = "" if first["type"] == "missing" else f" = {quoted(first['input'])}"
            raise UsageError(f"{where}: {name}{value}: {allowed_by(error)}") from None

    @classmethod
    def of_file(cls, file: Path | None, **more: Any) -> Self:
        """Return the policy of a TOML file, or of none, with values that take the place of the file's."""
        where = str(file) if file else "the node's policy"
        try:
            plain = tomllib.loads(file.read_text(encoding="utf-8")) if file else {}
        except (OSError, ValueError) as error:
            raise UsageError(f"{where}: {error}") from None
        return cls.of({**plain, **{name: value for name, value in more.items() if value is not None}}, where=where)

    @classmethod
    def of_node(cls, node_config: Mapping[str, Any]) -> Self:
        """Return the policy that a node's config holds, in keys with dashes."""
        named = {name: node_config[_key(name)] for name in cls.model_fields if _key(name) in node_config}
        return cls.of(named, where="node-config")

    def as_node_config(self) -> dict[str, str | int | float | bool]:
        """Return the policy as entries of a node's config."""
        given = self.model_dump(exclude_defaults=True) | {"models": ",".join(self.models)}
        return {_key(name): value for name, value in given.items() if value != ""}

    @property
    def most_of_a_run(self) -> float:
        """The largest epsilon of one run."""
        return self.largest_epsilon if self.epsilon_of_a_run is None else self.epsilon_of_a_run


def _key(name: str) -> str:
    return name.replace("_", "-")
