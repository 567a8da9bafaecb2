"""What the library is given instead of threads, the clock, chance, and the list of stores."""

from __future__ import annotations

import contextlib
import secrets
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import ModuleType
from typing import Any, TypeVar
from unittest import mock

from tests.protocol import actors  # noqa: F401  with it, all is loaded that is to be replaced
from tests.protocol.actor import execution
from tests.protocol.store import SimulatedStore
from tfio_store.storage import resolve

T = TypeVar("T")


class InlineExecutor:
    """Runs each task at once, in the thread that submits it."""

    def __init__(self, *arguments: object, **options: object) -> None:
        pass

    def submit(self, task: Callable[..., T], /, *arguments: Any, **options: Any) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(task(*arguments, **options))
        except Exception as error:
            future.set_exception(error)
        return future

    def map(self, task: Callable[..., T], *arguments: Any) -> Iterator[T]:
        return iter([task(*each) for each in zip(*arguments, strict=False)])

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        pass

    def __enter__(self) -> InlineExecutor:
        return self

    def __exit__(self, *exc_info: object) -> None:
        pass


class VirtualTime(ModuleType):
    """The module ``time``, but for the wall clock, which is the world's, and waits, which are
    none."""

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def time(self) -> float:
        return execution().clock

    monotonic = time

    def sleep(self, seconds: float) -> None:
        pass


class Chance(ModuleType):
    """The module ``secrets``, whose tokens are drawn by each actor from a sequence of its own, so
    that they do not depend on who else runs."""

    def __getattr__(self, name: str) -> Any:
        return getattr(secrets, name)

    def token_hex(self, nbytes: int) -> str:
        return execution().token(nbytes)


class Point:
    """An entry point, as an installed package would have it."""

    def load(self) -> type[SimulatedStore]:
        return SimulatedStore


STAND_INS = {
    "Threads": InlineExecutor,
    "mapped": lambda work, items, at_once: map(work, list(items)),
    "time": VirtualTime("time"),
    "secrets": Chance("secrets"),
}


@contextlib.contextmanager
def simulated() -> Iterator[None]:
    """While the block runs, ``sim://`` is a scheme, and nothing depends on anything outside."""
    plugins = resolve.plugins()
    with contextlib.ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if name.startswith("tfio_store.") and "storage" not in name:
                for attribute, stand_in in STAND_INS.items():
                    if hasattr(module, attribute):
                        stack.enter_context(mock.patch.object(module, attribute, stand_in))
        known = {**plugins, "sim": Point()}
        stack.enter_context(mock.patch.object(resolve, "plugins", return_value=known))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        yield
