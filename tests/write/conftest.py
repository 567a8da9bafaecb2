"""What several tests of writers use."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.servers.place import Place
from tfio_store.storage.local import LocalStore


@pytest.fixture
def on_put(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[..., Any]], None]:
    """``on_put(name, answer)``: for objects so named, ``answer(put)`` in the place of the put."""

    def install(name: str, answer: Callable[..., Any]) -> None:
        put = LocalStore.put

        def replaced(self: LocalStore, path: str, *args: Any, **options: Any) -> Any:
            if not os.path.basename(path).startswith(name):
                return put(self, path, *args, **options)
            return answer(lambda: put(self, path, *args, **options))

        monkeypatch.setattr(LocalStore, "put", replaced)

    return install


@pytest.fixture
def local(tmp_path: Path) -> Place:
    return Place(str(tmp_path))
