"""`Pace`: how fast requests follow each other at a store that wants fewer of them."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import deque
from itertools import count
from math import inf

__all__ = ["Pace"]

CUT = 0.3
"""A refusal takes this part of a low rate away."""

MANY = 100.0
"""Requests a second from which on it takes less: of many requests, many can be refused."""

MORE = 0.02
"""Requests a second that an answer adds."""

FEW = 5.0
"""Requests a second below which it adds more: as much in a second as at this rate."""

LONGER = 10.0
"""The longer nobody was refused, the more it adds: twice as much after so many seconds."""

SEARCH = 0.5
"""What an answer adds until the second refusal, since the first one tells little of the rate."""

TOLERATED = 0.1
"""Of a smaller share of refusals a store may be the cause that is only faulty."""

OUTCOMES = 64
"""The share is that of about so many requests."""

SECONDS = 1.0
"""The rate of answers is that of so many seconds."""

LEAST = 0.5
"""Requests a second that everybody may make."""

FORGOTTEN = 60.0
"""After so many seconds without a refusal there is no limit any more."""


class Pace:
    """When the next request may begin.

    A store that is asked for more than it gives refuses some requests (503 SlowDown, 429). If each
    of them is only repeated, a fleet of readers asks for ever more, and some give up. Here a
    refusal lowers the rate of all requests to that store, and answers raise it again. Whoever has a
    higher rate meets more refusals, so readers end up with about the same one.

    Until the first refusal nothing is held up. The caller tells the time, in seconds from any
    moment. No clock is looked at here. Any thread may call.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.rate = inf
        """Requests a second that may begin."""
        self.answered = False
        """Whether the store has answered anything. It is set by who asks."""
        self._searches = True
        self._cut = -inf
        """When the rate was last lowered."""
        self._next = -inf
        """When the next request may begin."""
        self._numbers = count(1)
        self._waiting: list[int] = []
        self._first: float | None = None
        self._under_way = 0
        self._ended, self._refused = OUTCOMES // 4, 0.0
        """The last requests, and the share of them that was refused."""
        self._answers: deque[float] = deque(maxlen=4096)

    def join(self) -> int:
        """A request wants to begin, once or more often. Returns its number. `leave` must follow."""
        return next(self._numbers)

    def wait(self, number: int, now: float) -> float:
        """Seconds after which the request is to ask again. 0 if it may begin: in the order of the
        numbers, so that what is repeated goes before what is new."""
        with self._lock:
            self._first = now if self._first is None else self._first
            if now - self._cut > FORGOTTEN:
                self.rate, self._searches = inf, True
            if self.rate != inf:
                before = bisect_left(self._waiting, number)
                at = self._next + before / self.rate
                if at > now:
                    if self._waiting[before : before + 1] != [number]:
                        self._waiting.insert(before, number)
                    return at - now
                self._next = max(now, self._next) + 1 / self.rate
            if self._waiting:
                self._leave(number)
            self._under_way += 1
            return 0.0

    def leave(self, number: int) -> None:
        """The request waits no longer: it begins, or nobody wants it any more."""
        if self._waiting:  # its number was added by this very thread, if it was
            with self._lock:
                self._leave(number)

    def _leave(self, number: int) -> None:
        at = bisect_left(self._waiting, number)
        if self._waiting[at : at + 1] == [number]:
            del self._waiting[at]

    def ended(self, now: float, begun: float, *, refused: bool) -> None:
        """A request that began at ``begun`` was refused, or ended otherwise."""
        with self._lock:
            self._under_way -= 1
            self._ended = min(self._ended + 1, OUTCOMES)
            self._refused += (refused - self._refused) / self._ended
            if not refused:
                self._answers.append(now)
                longer = 1 + ((now - self._cut) / LONGER) ** 2
                more = MORE * max(1.0, FEW / self.rate)
                self.rate += SEARCH if self._searches else more * longer
            elif begun >= self._cut and self._refused > TOLERATED:  # others tell of the rate before
                self._lower(now)

    def _lower(self, now: float) -> None:
        if self.rate == inf:
            self.rate = max(self._seen(now), self._under_way + 1.0)
        else:
            self._searches = False
        self.rate = max(LEAST, self.rate * (1 - CUT / (1 + self.rate / MANY)))
        self._cut = now
        if self.rate > FEW:  # what is refused from here on tells soon whether that was enough
            self._refused /= 2
        self._next = min(self._next, now + 1 / self.rate)

    def _seen(self, now: float) -> float:
        """Answers a second of late."""
        since = now if self._first is None else self._first
        seconds = min(SECONDS, max(now - since, SECONDS / 10))
        return sum(at > now - seconds for at in self._answers) / seconds
