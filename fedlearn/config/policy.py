"""The policy of a node: limits that its owner sets, and that no server can change."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, ValidationError, field_validator

from fedlearn.config.fields import Positive, Settings
from fedlearn.config.syntax import parsed
from fedlearn.core.errors import UsageError, said
from fedlearn.plugins.ranges import first_wrong

SIMULATED = "simulated"
"""Key in a node's config that the engines of simulations set to true: the node is virtual, and has no owner."""


class Policy(Settings):
    """Limits of what a node does for servers; they bind a node that has a ledger. A number in quotes is refused."""

    model_config = ConfigDict(strict=True)

    largest_epsilon: Positive
    """Largest sum of epsilon, over all runs and servers."""
    delta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Probability at which `largest_epsilon` need not hold; at 0 nothing is answered with Gaussian noise."""
    epsilon_of_a_run: Positive | None = None
    """Largest epsilon of one run; `largest_epsilon` unless given. Other settings make another run."""
    seeded_noise: bool = False
    """Whether noise may be seeded; seeded noise protects no record."""
    public_sizes: bool = False
    """Whether a server may learn the number of records; each loss then counts double."""
    least_records: Annotated[int, Field(ge=0)] = 0
    """Fewest records in the whole table with which the node takes part; whether there are so many is public."""
    most_questions: Annotated[int, Field(ge=1)] = 10_000
    """Largest number of questions that are answered. Each answer is kept: cheap questions could fill the disk."""
    hours: Annotated[str, Field(pattern=r"^(([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d)?$")] = ""
    """Hours of the day in which the node works, by its own clock, as ``"20:00-06:00"``; always unless given."""
    declared: Annotated[str, Field(pattern=r"^(.+\.toml)?$")] = ""
    """File that declares the owner's table, in the node's data folder. With --own-data no server names another one."""
    bins: Annotated[int, Field(ge=1, le=1000)] = 20
    """Bins of each numeric column in exact statistics. By several grids a server would find single values."""
    groups: tuple[str, ...] = ()
    """Columns by which exact statistics may be grouped; all that are declared unless given."""
    models: tuple[str, ...] = ()
    """Names of the models that may be trained; all private models of fedlearn unless given."""
    agreed: tuple[str, ...] = ()
    """Names of the models whose runs need no answer of the owner, where the client asks (--ask)."""
    code: tuple[Annotated[str, Field(pattern="^[0-9a-f]{64}$")], ...] = ()
    """SHA-256 of code that is in no table of fedlearn and may run; no other such code runs then."""

    @field_validator("models", "groups", "agreed", "code", mode="before")
    @classmethod
    def _names(cls, given: object) -> object:
        """Split the names that a node's config holds in one text."""
        if isinstance(given, str):
            return tuple(name.strip() for name in given.split(",") if name.strip())
        return tuple(given) if isinstance(given, list) else given

    @classmethod
    def of(cls, given: Mapping[str, Any], *, where: str, flags: Mapping[str, object] = MappingProxyType({})) -> Self:
        """Return a policy of plain values.

        Parameters
        ----------
        flags
            Entries that were given by flags of their names.

        Raises
        ------
        UsageError
            In one line that names `where`, or the flag, and the wrong entry.
        """
        try:
            return cls(**given)
        except ValidationError as error:
            wrong = first_wrong(error, cls)
            name = str(error.errors()[0]["loc"][0])
            if name in flags:
                raise UsageError(f"--{_key(name)} {_typed(flags[name])}: {wrong.partition(': ')[2]}") from None
            raise UsageError(f"{where}: {wrong}") from None

    @classmethod
    def of_file(cls, file: Path | None, **more: Any) -> Self:
        """Return the policy of a TOML file, whose entries `more` replaces; without a file, that of `more` alone."""
        where = str(file) if file else "the client's policy"
        try:
            plain = parsed(file.read_bytes()) if file else {}
        except OSError as error:
            raise UsageError(f"{where}: {error.strerror}: name a file of limits, as policy.toml") from None
        except ValueError as error:
            raise UsageError(f"{where}: {error}") from None
        flags = {name: value for name, value in more.items() if value is not None}
        return cls.of({**plain, **flags}, where=where, flags=flags)

    @classmethod
    def of_node(cls, node_config: Mapping[str, Any]) -> Self:
        """Return the policy in a node's config, where names have dashes."""
        named = {name: node_config[_key(name)] for name in cls.model_fields if _key(name) in node_config}
        return cls.of(named, where="node-config")

    def as_node_config(self) -> dict[str, str | int | float | bool]:
        """Return the policy as entries of a node's config."""
        names = {name: ",".join(getattr(self, name)) for name in ("models", "groups", "agreed", "code")}
        given = self.model_dump(exclude_defaults=True) | names
        return {_key(name): value for name, value in given.items() if value != ""}

    @property
    def most_of_a_run(self) -> float:
        """The largest epsilon of one run."""
        return self.largest_epsilon if self.epsilon_of_a_run is None else self.epsilon_of_a_run


def _key(name: str) -> str:
    return name.replace("_", "-")


def _typed(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else said(value)
