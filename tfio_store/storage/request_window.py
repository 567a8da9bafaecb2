"""`RequestWindow`: how many requests are worth having in flight."""

from __future__ import annotations

__all__ = ["RequestWindow"]

WORTH = 1.1
"""Twice the requests must bring so many times the bytes a second, or they are not worth it."""

WAITING = 0.5
"""The share of its time that a reader waits for the store, if the store is what holds it up."""


class RequestWindow:
    """How many requests a reader has in flight: ``size``.

    It begins at half of the store's usual number: a reader that wants three records must not pay
    for everything that could be in flight. The first answer takes it to the usual number. From
    there it is judged by rounds of ``size`` answers. While the reader mostly waits, it is doubled,
    up to the store's most. If a doubling does not bring more bytes a second, it is taken back, and
    it was the last.

    The caller tells the time, in seconds from any moment. No clock is looked at here.
    """

    def __init__(self, usual: int, most: int) -> None:
        self.limits = usual, most  # as the store tells them
        self.usual = min(usual, most)
        self.most = most
        self.size = min(self.usual, max(2, usual // 2))
        self._settled = usual >= most
        self._slower: tuple[int, float] | None = None  # size and bytes a second before a doubling
        self._begin(0.0)

    def answered(self, nbytes: int, asked: float, came: float) -> None:
        """The reader wanted the next answer at the time ``asked``, and had it when it ``came``."""
        if self.size < self.usual:
            self._grow(self.usual)
        elif self._early:  # it was asked for before the window grew, and tells nothing of that
            self._early -= 1
            if not self._early:
                self._begin(came)
        elif not self._settled:
            self._nbytes += nbytes
            self._waited += came - asked
            self._left -= 1
            if not self._left:
                self._judge(came)

    def _grow(self, most: int) -> None:
        self._early = self.size
        self.size = min(2 * self.size, most)

    def _begin(self, now: float) -> None:
        """Begin a round."""
        self._began = now
        self._early = 0
        self._left = self.size
        self._nbytes = 0
        self._waited = 0.0

    def _judge(self, now: float) -> None:
        seconds = max(now - self._began, 1e-9)
        rate = self._nbytes / seconds
        if self._slower is not None and rate < WORTH * self._slower[1]:
            self.size, self._settled = self._slower[0], True
        elif self.size >= self.most:
            self._settled = True
        elif self._waited > WAITING * seconds:
            self._slower = self.size, rate
            self._grow(self.most)
        else:
            self._slower = None
            self._begin(now)
