"""An actor as a function: from the answers that it got, what it asks next."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.protocol.requests import Answer, Request
from tests.protocol.world import World


class Stop(BaseException):
    """Raised where an actor asks what is not to be answered now."""


@dataclass(frozen=True)
class Role:
    """An actor's program, and what it finds without asking."""

    name: str
    number: int
    program: Callable[[], Any]
    clock: float
    staged: bool
    """Whether the store begins an upload by a request of its own (a multipart upload, a file)."""

    @property
    def _mark(self) -> str:
        return f"{0xA0 + self.number:02x}"

    def token(self, number: int, nbytes: int) -> str:
        return f"{self._mark}{number:0{2 * nbytes - 2}x}"

    def draws(self, token: str) -> bool:
        """Whether it is this actor that draws such tokens."""
        return token.startswith(self._mark)


class Execution:
    """One run of an actor's code with the answers given: up to a request that has none, or its
    end."""

    def __init__(self, role: Role, answers: list[Answer]) -> None:
        self.role = role
        self.clock = role.clock
        self.request: Request | None = None
        self._answers = iter(answers)
        self._drawn = 0

    def ask(self, request: Request) -> Any:
        answer = next(self._answers, None) if self.request is None else None
        if answer is None:
            self.request = self.request or request
            raise Stop
        self.clock = answer.clock
        return answer.give()

    def token(self, nbytes: int) -> str:
        self._drawn += 1
        return self.role.token(self._drawn, nbytes)

    def run(self) -> Any:
        _executions.append(self)
        try:
            return self.role.program()
        finally:
            _executions.pop()


class Direct(Execution):
    """For what is not explored: each request is carried out at once."""

    def __init__(self, world: World, number: int, program: Callable[[], Any]) -> None:
        super().__init__(Role("", number, program, world.clock, False), [])
        self._world = world

    def ask(self, request: Request) -> Any:
        self.clock = self._world.clock
        return request.answer(self._world).give()


_executions: list[Execution] = []


def execution() -> Execution:
    """The one under way."""
    if threading.current_thread() is not threading.main_thread():
        raise AssertionError(f"{threading.current_thread().name} asks on nobody's behalf")
    return _executions[-1]


class Moment:
    """Where an actor stands: the request that it makes next, or how it ended."""

    __slots__ = ("_answer", "_before", "_next", "error", "request", "result", "role")

    def __init__(
        self, role: Role, before: Moment | None = None, answer: Answer | None = None
    ) -> None:
        self.role = role
        self._before = before
        self._answer = answer
        self._next: dict[int, Moment] = {}
        self.result: Any = None
        self.error: BaseException | None = None
        execution = Execution(role, self._answers())
        try:
            self.result = execution.run()
        except Stop:
            pass
        except Exception as error:
            self.error = error.with_traceback(None)
        self.request = execution.request

    @property
    def ended(self) -> bool:
        return self.request is None

    def after(self, answer: Answer) -> Moment:
        """Where it stands once it has been told this."""
        key = answer.key()
        found = self._next.get(key)
        if found is None:
            found = self._next[key] = Moment(self.role, self, answer)
        return found

    def _answers(self) -> list[Answer]:
        found: list[Answer] = []
        moment: Moment | None = self
        while moment is not None and moment._answer is not None:
            found.append(moment._answer)
            moment = moment._before
        return found[::-1]
