"""Connections to the server, of which there may be so many. Idle ones make room for others."""

from __future__ import annotations

import asyncio
import itertools

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["Connection"]

_numbers = itertools.count()


class Connection(H11Protocol):
    """One connection. If there are too many with it, idle ones are closed: first those that have
    sent no whole request, and of these the oldest. Whoever holds hundreds open keeps nobody out."""

    number = 0
    """Of all connections, in the order in which they came."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.number = next(_numbers)
        if self.limit_concurrency is not None:
            self._make_room(len(self.connections) + 1 - self.limit_concurrency)

    def _make_room(self, count: int) -> None:
        others = (one for one in self.connections if isinstance(one, Connection))
        idle = [one for one in others if one is not self and one.is_idle]
        for one in sorted(idle, key=lambda one: (one.has_asked, one.number))[: max(count, 0)]:
            self.connections.discard(one)  # which closing does later
            one.transport.close()

    @property
    def has_asked(self) -> bool:
        """Whether a whole request has come."""
        return self.cycle is not None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being answered."""
        return self.cycle is None or self.cycle.response_complete
