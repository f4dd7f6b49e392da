"""Numbers as they are written: for people, on axes, in files."""

from __future__ import annotations

SMALL = 5e-4  # below it, four digits behind the point say nothing
ROUNDED = 0.9995  # of a unit: what three digits write as 1 of it
BYTE_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes"))


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


def size(count: float) -> str:
    """Return a number of bytes for people, in powers of ten.

    >>> size(2_517_000), size(12), size(999_800)
    ('2.52 MB', '12 B', '1 MB')
    """
    divisor, unit = byte_unit(count)
    return f"{_digits(count / divisor)} {unit}" if divisor > 1 else f"{count:.0f} B"


def size_spread(mean: float, sd: float) -> str:
    """Return a mean and its deviation in one unit.

    >>> size_spread(3_750_000, 0), size_spread(3_750_000, 21_000)
    ('3.75 ± 0 MB', '3.75 ± 0.021 MB')
    """
    divisor, unit = byte_unit(mean)
    return f"{_digits(mean / divisor)} ± {_digits(sd / divisor)} {unit if divisor > 1 else 'B'}"


def _digits(value: float) -> str:
    """Return three digits, and no exponent.

    >>> _digits(1234.5), _digits(0.0214), _digits(0.0)
    ('1234', '0.0214', '0')
    """
    return f"{value:.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def byte_unit(largest: float) -> tuple[float, str]:
    """Return the unit in which an axis of bytes is read best.

    >>> byte_unit(2_500_000)
    (1000000.0, 'MB')
    """
    return next((unit for unit in BYTE_UNITS if largest >= ROUNDED * unit[0]), BYTE_UNITS[-1])


def written(value: float) -> str:
    """Return a number for a tick or a hint.

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

    >>> ratio_spread(9.934, 0.02), ratio_spread(1.0, 0.0)
    ('9.93 ± 0.02x', '1.00 ± 0.00x')
    """
    return f"{ratio(mean).removesuffix('x')} ± {sd:.2f}x"


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

    >>> seconds_spread(19.18, 0.52), seconds_spread(3725, 61)
    ('19.2 ± 0.5 s', '62 ± 1 min')
    """
    return f"{mean:.1f} ± {sd:.1f} s" if mean < 120 else f"{mean / 60:.0f} ± {sd / 60:.0f} min"


def plain(value: float | None) -> float | int | None:
    """Return a number as a file has it: a whole one without a point."""
    return int(value) if value is not None and value.is_integer() else value
