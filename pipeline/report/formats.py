"""Quantities as people write them: thousands separators, sensible digits, units."""

import math

import numpy as np

NOT_KNOWN = "–"


def count(value: float | None) -> str:
    """A whole number: 1,234."""
    return NOT_KNOWN if value is None else f"{value:,.0f}"


def number(value: float | None) -> str:
    """Four significant digits: 1,234  12.34  0.001234  1.234e-07."""
    if value is None:
        return NOT_KNOWN
    if not math.isfinite(value):
        return {math.inf: "∞", -math.inf: "−∞"}.get(value, "not a number")
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    if not -5 < magnitude < 15:
        return f"{value:.3e}"
    text = f"{value:,.{max(0, 3 - magnitude)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def three_digits(value: float) -> str:
    """Three digits, or more if there are more before the point: 1,234 12.3 0.00123."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def power(value: float) -> str:
    """Formats with a power of ten and no needless digit: 1.5e11."""
    digits, _, exponent = f"{value:.6e}".partition("e")
    return f"{digits.rstrip('0').rstrip('.')}e{int(exponent)}"


def fraction(value: float | None) -> str:
    """A metric in 0 … 1 with four decimals, as papers print it."""
    if value is None or not math.isfinite(value):
        return number(value)
    return f"{value:.4f}"


def percent(value: float | None) -> str:
    """A percentage with one decimal; 0.0 % and 100.0 % are only used for exact values."""
    if value is None or not math.isfinite(value):
        return number(value)
    if value in (0, 1):
        return f"{100 * value:.0f} %"
    if abs(value) < 0.0005:
        return "< 0.1 %"
    return "> 99.9 %" if 0.9995 <= value < 1 else f"{100 * value:,.1f} %"


def date(microseconds: float | None) -> str:
    """Microseconds since 1970 as a date in UTC, such as 2026-01-31 17:05, or 2026-01-31 at midnight."""
    if microseconds is None or not abs(microseconds) < 2.0**63:
        return number(microseconds)
    text = np.datetime_as_string(np.datetime64(int(microseconds), "us"), unit="m")
    return text.replace("T", " ").removesuffix(" 00:00")


def duration(seconds: float | None) -> str:
    """Seconds as 4.2 s, 42 s, 3 min 07 s or 2 h 05 min."""
    if seconds is None:
        return NOT_KNOWN
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def step_time(seconds: float) -> str:
    """Microseconds, milliseconds or seconds, with three digits."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{three_digits(seconds / scale)} {unit}"
    return f"{three_digits(seconds / 1e-6)} µs"


def size(bytes_: float | None) -> str:
    """Bytes in KiB, MiB or GiB."""
    if bytes_ is None:
        return NOT_KNOWN
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if bytes_ >= scale:
            return f"{bytes_ / scale:,.1f} {unit}"
    return f"{bytes_:,.0f} bytes"


def shortened(text: str, limit: int) -> str:
    """The text, or its beginning and an ellipsis: `limit` characters at most."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
