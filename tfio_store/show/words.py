"""Numbers in the sentences of a report."""

from __future__ import annotations

from tfio_store.dataset.words import counted

__all__ = ["counted", "number", "percent", "size"]


def number(count: int) -> str:
    """``1,024``."""
    return f"{count:,}"


def percent(part: float) -> str:
    """``38 %``, ``0.1 %``; never 0 or 100 unless it is exactly that."""
    value = 100 * part
    if value in (0, 100):
        return f"{value:.0f} %"
    if value < 0.01:
        return "under 0.01 %"
    if value > 99:
        return "over 99 %" if value > 99.9 else f"{value:.1f} %"
    if value < 1:
        return f"{value:.2g} %"
    return f"{value:.0f} %"


def size(nbytes: int) -> str:
    """``1.5 MiB``."""
    value, units = float(nbytes), ["bytes", "KiB", "MiB", "GiB", "TiB"]
    if nbytes < 1024:
        return f"{nbytes} bytes" if nbytes != 1 else "1 byte"
    unit = 0
    while value >= 1024 and unit < len(units) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f} {units[unit]}" if value < 100 else f"{value:.0f} {units[unit]}"
