"""Requests to the simulated store, and what may become of them."""

from __future__ import annotations

import enum
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.protocol.world import World

CHANGES = frozenset({"put", "duplicate", "delete", "delete_version", "begin", "complete", "drop"})
"""Requests that change the store. All others look, or wait."""

WAITS = frozenset({"show", "wait", "sleep"})
"""Not of a store: what actors tell each other, and the time that passes."""


class Fate(enum.Enum):
    """What becomes of a request. The value is how a trace writes it."""

    DONE = ""
    REFUSED = "refused"
    """Not carried out; 403."""
    FAILED = "failed"
    """Not carried out; a timeout after all retries."""
    LOST = "lost"
    """Carried out; the answer is lost, and those of all retries."""
    LOST_403 = "lost403"
    """Carried out; the answer is lost, and the retry is answered 403: the token ran out."""
    RETRIED = "retried"
    """Carried out; the answer is lost, and the retry's answer arrives."""
    LATE = "late"
    """A timeout for who asked; carried out at some later time."""
    LATE_403 = "late403"
    """Given up for slow, and the retry is answered 403; the first is carried out later."""
    OVERTAKEN = "overtaken"
    """A client repeats it by itself, and hears 403; the first copy is carried out later."""
    TWICE = "twice"
    """Carried out and answered; a first attempt, given up for slow, is carried out later."""
    DIES = "dies"
    """The actor is gone before the request."""
    DIES_LATE = "dies-late"
    """The actor is gone, and its request is carried out later."""


APPLIED = frozenset({Fate.DONE, Fate.LOST, Fate.LOST_403, Fate.RETRIED, Fate.TWICE})
DEFERRED = frozenset({Fate.LATE, Fate.LATE_403, Fate.OVERTAKEN, Fate.TWICE, Fate.DIES_LATE})
FATAL = frozenset({Fate.DIES, Fate.DIES_LATE})
FAULTS = {
    Fate.REFUSED: (PermissionError, errno.EACCES, 1),
    Fate.FAILED: (TimeoutError, errno.ETIMEDOUT, 2),
    Fate.LATE: (TimeoutError, errno.ETIMEDOUT, 2),
    Fate.LATE_403: (PermissionError, errno.EACCES, 2),
    Fate.OVERTAKEN: (PermissionError, errno.EACCES, 1),
    Fate.LOST: (ConnectionError, errno.ECONNRESET, 2),
    Fate.LOST_403: (PermissionError, errno.EACCES, 2),
}
"""What who asked is told, and after how many attempts."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An exception to raise, as a value: each time it is raised it is a new one."""

    kind: type[OSError]
    number: int
    attempts: int
    path: str

    def make(self) -> OSError:
        fault = self.kind(self.number, os.strerror(self.number), f"sim://{self.path}")
        fault.attempts = self.attempts  # type: ignore[attr-defined]
        return fault


@dataclass(frozen=True, slots=True)
class Answer:
    """What an actor is told, and when."""

    value: Any
    fault: Fault | None
    clock: float

    def key(self) -> int:
        value = tuple(self.value) if isinstance(self.value, list) else self.value
        return hash((value, self.fault, self.clock))

    def give(self) -> Any:
        if self.fault is not None:
            raise self.fault.make()
        return list(self.value) if isinstance(self.value, list) else self.value


@dataclass(frozen=True, slots=True)
class Request:
    """A method of `World` to call."""

    kind: str
    path: str
    arguments: tuple[Any, ...] = ()

    def carry_out(self, world: World) -> Any:
        method: Callable[..., Any] = getattr(world, self.kind)
        return method(self.path, *self.arguments)

    def answer(self, world: World, attempts: int = 1) -> Answer:
        try:
            value = self.carry_out(world)
        except OSError as fault:
            told = Fault(type(fault), fault.errno or 0, attempts, self.path)
            return Answer(None, told, world.clock)
        return Answer(value, None, world.clock)

    def fates(self) -> tuple[Fate, ...]:
        """What else than being done may become of it."""
        if self.kind in WAITS:
            return ()
        if self.kind in CHANGES:
            return tuple(fate for fate in Fate if fate is not Fate.DONE)
        return Fate.REFUSED, Fate.FAILED, Fate.DIES

    def ready(self, world: World) -> bool:
        return self.kind != "wait" or self.path in world.shown

    def __str__(self) -> str:
        condition = ""
        if self.kind in ("put", "complete"):
            condition = " if " + str(self.arguments[-1] or self.arguments[-2])
        return f"{self.kind} {self.path.removeprefix('ds/')}{condition}"
