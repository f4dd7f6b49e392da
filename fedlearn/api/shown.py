"""`fedlearn.partitions`: which client has which examples, without a run."""

from __future__ import annotations

from collections.abc import Mapping
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from fedlearn.api.given import flat_settings
from fedlearn.api.isolated_call import guest
from fedlearn.commands.shared import run_settings
from fedlearn.plugins.own_packages import claimed

if TYPE_CHECKING:
    from fedlearn.report.partitions import Partitions


def partitions(
    clients: int | None = None, *, data: Any = None, settings: Mapping[str, Any] | None = None, **keywords: Any
) -> Partitions:
    """Return which client would have which examples, without a run: table, label histogram, sizes, picture.

    Parameters
    ----------
    clients, data, settings, **keywords
        As of `fedlearn.run`: the same arguments give the partition of that run.

    Raises
    ------
    UsageError
        If a setting is wrong, or the data cannot be read.

    Examples
    --------
    >>> fedlearn.partitions(clients=10, data="digits", partition="shard").table  # doctest: +SKIP
    """
    from fedlearn.report.partitions import partitions_of

    with guest(), claimed(), TemporaryDirectory(prefix="fedlearn-") as nowhere:
        given = flat_settings({"clients": clients, "data": data, **keywords}, settings or {})
        return partitions_of(run_settings({**given, "out": nowhere}, [], None))
