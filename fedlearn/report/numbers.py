"""Write numbers for people, on axes and in files."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from math import floor, log10
from typing import NamedTuple

from fedlearn.core.metric import Metric

ALIKE = 1e-6  # share of a mean: a smaller deviation counts as zero
SMALL = 5e-4  # below it, four digits behind the point are not enough
ROUNDED = 0.9995  # share of a unit that three digits write as 1
SMALLER = 1.005  # least compression ratio that is written as more than 1.00x
BYTE_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes"))


class MeanSd(NamedTuple):
    """A mean and the sample standard deviation; the deviation of a single value is None."""

    mean: float
    sd: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> MeanSd:
        """Return the mean and deviation of some values, at least one.

        >>> MeanSd.of([1.0, 3.0]), MeanSd.of([1.0])
        (MeanSd(mean=2.0, sd=1.4142135623730951), MeanSd(mean=1.0, sd=None))
        """
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)


def number(value: float | None) -> str:
    """Return a measured value for people.

    >>> number(0.48713), number(49325.123), number(0.0000123), number(None)
    ('0.4871', '49325.1', '1.23e-05', '-')
    """
    if value is None:
        return "-"
    if 0 < abs(value) < SMALL:
        return f"{value:.2e}"
    return f"{value:.4f}" if abs(value) < 1000 else f"{value:.1f}"


def count(value: float | None) -> str:
    """Return a number of things, or their mean, for people.

    >>> count(43.0), count(10.25), count(None)
    ('43', '10.2', '-')
    """
    return "-" if value is None else f"{value:.1f}".removesuffix(".0")


def count_spread(mean: float, sd: float) -> str:
    """Return the mean of several counts and its deviation.

    >>> count_spread(10.5, 0.7071), count_spread(10, 0)
    ('10.5 ± 0.7', '10')
    """
    return _rounded(mean, sd, 1, "") or count(mean)


def text_of(metric: Metric, value: float | None) -> str:
    """Return the value of a metric for people: of a count without digits behind the point.

    >>> text_of(Metric("nodes", is_count=True), 43.0), text_of(Metric("accuracy"), 0.5)
    ('43', '0.5000')
    """
    return count(value) if metric.is_count else number(value)


def bits(value: float) -> str:
    """Return the bits of a message for each parameter, with three digits.

    >>> bits(20.0), bits(32.2438), bits(0.05123), bits(128.97)
    ('20', '32.2', '0.0512', '129')
    """
    return _digits(value)


def bits_spread(mean: float, sd: float) -> str:
    """Return mean bits for each parameter and their deviation, with as many digits as `bits`.

    >>> bits_spread(3.252, 0.0132), bits_spread(32.24, 0.001)
    ('3.25 ± 0.01', '32.2')
    """
    decimals = max(0, 2 - floor(log10(mean))) if mean > 0 else 0
    return _rounded(mean, sd, decimals, "") or bits(mean)


def bits_both_ways(up: float | None, down: float | None) -> str:
    """Return the bits for each parameter of a message, in both directions, in words; empty unless both are known.

    >>> bits_both_ways(1.0, 32.1)
    '1 bits a parameter up, 32.1 down'
    """
    return "" if up is None or down is None else f"{bits(up)} bits a parameter up, {bits(down)} down"


def size(count: float) -> str:
    """Return a number of bytes for people, in powers of ten.

    >>> size(2_517_000), size(12), size(999_800)
    ('2.52 MB', '12 B', '1 MB')
    """
    divisor, unit = byte_unit(count)
    return f"{_digits(count / divisor)} {unit}" if divisor > 1 else f"{count:.0f} B"


def size_spread(mean: float, sd: float) -> str:
    """Return a mean and its deviation in one unit.

    >>> size_spread(3_750_000, 0), size_spread(3_750_000, 21_000), size_spread(105_564, 1.15)
    ('3.75 MB', '3.75 ± 0.02 MB', '106 kB')
    """
    divisor, unit = byte_unit(mean)
    scaled = mean / divisor
    decimals = 0 if divisor == 1 else max(0, 2 - int(log10(max(scaled, 1.0))))
    return _rounded(scaled, sd / divisor, decimals, f" {unit if divisor > 1 else 'B'}") or size(mean)


def _digits(value: float) -> str:
    """Return a number with three digits and no exponent.

    >>> _digits(1234.5), _digits(0.0214), _digits(0.0)
    ('1234', '0.0214', '0')
    """
    return f"{value:.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def byte_unit(largest: float) -> tuple[float, str]:
    """Return the unit of bytes (divisor, name) for an axis up to `largest` bytes.

    >>> byte_unit(2_500_000)
    (1000000.0, 'MB')
    """
    return next((unit for unit in BYTE_UNITS if largest >= ROUNDED * unit[0]), BYTE_UNITS[-1])


def written(value: float) -> str:
    """Return the text of a number for a tick or a hint.

    >>> written(0.25), written(63283.94), written(20.0), written(2500000)
    ('0.25', '63.28k', '20', '2.5M')
    """
    for least, unit, letter in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= least:
            return f"{value / unit:.4g}{letter}"
    return f"{value:.4g}"


def ratio(value: float) -> str:
    """Return a compression ratio for people.

    >>> ratio(9.934), ratio(256.2)
    ('9.93x', '256x')
    """
    return f"{value:.2f}x" if value < 100 else f"{value:.0f}x"


def ratio_spread(mean: float, sd: float) -> str:
    """Return a mean ratio and its deviation.

    >>> ratio_spread(9.934, 0.02), ratio_spread(1.0, 0.0), ratio_spread(256.2, 0.0004)
    ('9.93 ± 0.02x', '1.00x', '256x')
    """
    return _rounded(mean, sd, 2 if mean < 100 else 0, "x") or ratio(mean)


def seconds(value: float) -> str:
    """Return a time for people.

    >>> seconds(19.18), seconds(3725), seconds(7260)
    ('19.2 s', '62 min', '2 h 1 min')
    """
    if value < 120:
        return f"{value:.1f} s"
    minutes = round(value / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 120 else f"{minutes} min"


def seconds_spread(mean: float, sd: float) -> str:
    """Return a mean time and its deviation in one unit.

    >>> seconds_spread(19.18, 0.52), seconds_spread(3725, 61), seconds_spread(2.0, 0.0)
    ('19.2 ± 0.5 s', '62 ± 1 min', '2.0 s')
    """
    of_minutes = _rounded(mean / 60, sd / 60, 0, " min")
    return (_rounded(mean, sd, 1, " s") if mean < 120 else of_minutes) or seconds(mean)


def number_spread(mean: float, sd: float | None) -> str:
    """Return a measured mean and its deviation, if there is one.

    >>> number_spread(0.48713, 0.0123), number_spread(0.5, 0.0), number_spread(0.5, 0.000002), number_spread(0.5, None)
    ('0.4871 ± 0.0123', '0.5000', '0.500000 ± 0.000002', '0.5000')
    """
    if sd is None or not sd > ALIKE * abs(mean):
        return number(mean)
    shown = max(4 if abs(mean) < 1000 else 1, -floor(log10(sd)))
    return f"{mean:.{shown}f} ± {sd:.{shown}f}"


def _rounded(mean: float, sd: float, decimals: int, unit: str) -> str:
    """Return a mean and its deviation with some digits behind the point; empty if the deviation has none of them.

    >>> _rounded(1.0, 0.004, 2, "x"), _rounded(106.0, 4.2, 0, " kB")
    ('', '106 ± 4 kB')
    """
    deviation = f"{sd:.{decimals}f}"
    return f"{mean:.{decimals}f} ± {deviation}{unit}" if float(deviation) else ""


def plain(value: float | None) -> float | int | None:
    """Return a number for a file: a whole number as an int."""
    return int(value) if value is not None and value.is_integer() else value
