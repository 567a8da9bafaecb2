"""What a request asks for, read strictly: numbers within bounds, and texts of a bounded length."""

from __future__ import annotations

from starlette.datastructures import QueryParams

__all__ = ["RefusedError", "number", "numbers", "text"]

_LONGEST = 4096
"""Characters of a text that a request brings."""


class RefusedError(Exception):
    """The request is none that this server answers. ``status`` is HTTP's."""

    def __init__(self, said: str, status: int = 400) -> None:
        super().__init__(said)
        self.status = status


def number(given: str | None, name: str, *, most: int, least: int = 0, default: int = 0) -> int:
    """An integer from ``least`` to ``most``."""
    if given is None:
        return default
    if not (given.isascii() and given.isdecimal()) or len(given) > len(str(most)):
        raise RefusedError(f"{name}={given[:40]} is no number from {least} to {most}")
    if not least <= int(given) <= most:
        raise RefusedError(f"{name}={given} is not from {least} to {most}")
    return int(given)


def numbers(given: str, name: str, *, most: int, count: int) -> list[int]:
    """At most ``count`` integers with commas between."""
    parts = given.split(",", count) if given else []
    if len(parts) > count:
        raise RefusedError(f"{name} takes at most {count} numbers")
    return [number(part, name, most=most) for part in parts]


def text(query: QueryParams, name: str) -> str:
    """A text; empty if it is not given."""
    given = query.get(name, "")
    if len(given) > _LONGEST:
        raise RefusedError(f"{name} is longer than {_LONGEST} characters")
    return given
