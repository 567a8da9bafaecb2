"""Choices from a seed, told by name, so that a case that fails says what it is."""

from __future__ import annotations

import random
from typing import Any, TypeVar

T = TypeVar("T")


class Difference(AssertionError):
    """The library gave other data than the oracle, or another kind of error."""


class Draw:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.told: dict[str, Any] = {}

    def one(self, name: str, *values: T) -> T:
        return self.tell(name, self.random.choice(values))

    def number(self, name: str, least: int, most: int) -> int:
        return self.tell(name, self.random.randint(least, most))

    def chance(self, name: str, share: float) -> bool:
        chosen = self.random.random() < share
        return self.tell(name, chosen) if chosen else chosen

    def tell(self, name: str, value: T) -> T:
        self.told[name] = value
        return value

    def __str__(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.told.items())


def same(got: Any, wanted: Any, what: str) -> None:
    """Lists of elements: where they begin to differ is said."""
    if got == wanted:
        return
    if not (isinstance(got, list) and isinstance(wanted, list)):
        raise Difference(f"{what}: {_short(got)}, not {_short(wanted)}")
    at = next((i for i, (a, b) in enumerate(zip(got, wanted, strict=False)) if a != b), None)
    if at is None:
        raise Difference(f"{what}: {len(got)} elements, not {len(wanted)}")
    raise Difference(
        f"{what}: element {at} of {len(got)} is {_short(got[at])}, not {_short(wanted[at])} "
        f"of {len(wanted)}"
    )


def same_multiset(got: list[Any], wanted: list[Any], what: str) -> None:
    same(sorted(got), sorted(wanted), f"{what}, sorted")


def hold(condition: bool, what: str) -> None:
    if not condition:
        raise Difference(what)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 160 else f"{text[:150]}… ({len(text)} characters)"
