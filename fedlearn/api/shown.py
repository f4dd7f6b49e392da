"""`fedlearn.partitions`: which client has which examples, without a run."""

from __future__ import annotations

from collections.abc import Mapping
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Unpack

from fedlearn.api.given import flat_settings
from fedlearn.api.isolated_call import guest
from fedlearn.api.keywords import Keywords
from fedlearn.api.spelled import as_called
from fedlearn.commands.shared import run_settings
from fedlearn.plugins.own_packages import claimed
from fedlearn.report.partition_report import partitions_of

if TYPE_CHECKING:
    from fedlearn.report.partition_report import Partitions


def partitions(
    clients: int | None = None,
    *,
    data: Any = None,
    settings: Mapping[str, Any] | None = None,
    **keywords: Unpack[Keywords],
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
    >>> fedlearn.partitions(clients=3, data="digits")
    <Partitions of digits, iid, seed 1: 3 clients with 480 to 481 examples>
    """
    called: dict[str, Any] = {"clients": clients, "data": data, **keywords}
    with as_called(called), guest(), claimed(), TemporaryDirectory(prefix="fedlearn-") as nowhere:
        given = flat_settings(called, settings or {})
        return partitions_of(run_settings({**given, "out": nowhere}, [], None))
