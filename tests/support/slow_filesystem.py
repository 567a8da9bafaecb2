"""An asynchronous fsspec filesystem over local files: its requests need fsspec's loop, and can be
made slow, or fail."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import fsspec
from fsspec.asyn import AsyncFileSystem

__all__ = ["SlowFileSystem"]


class SlowFileSystem(AsyncFileSystem):
    """``slow://NAME`` is the file ``folder``/NAME. ``flying``: requests under way."""

    protocol = "slow"
    cachable = False
    folder = ""
    seconds = 0.0
    refuses = False
    flying = 0

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.partition("://")[2].strip("/") if "://" in path else path.strip("/")

    async def _request(self) -> None:
        SlowFileSystem.flying += 1
        try:
            await asyncio.sleep(self.seconds)
        finally:
            SlowFileSystem.flying -= 1

    def _at(self, path: str) -> Path:
        return Path(self.folder, self._strip_protocol(path))

    async def _cat_file(self, path: str, start: Any = None, end: Any = None, **_: Any) -> bytes:
        await self._request()
        return self._at(path).read_bytes()[start:end]

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        await self._request()
        at = self._at(path)
        found = at.stat()
        kind = "directory" if at.is_dir() else "file"
        return {"name": self._strip_protocol(path), "size": found.st_size, "type": kind}

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        names = [f"{self._strip_protocol(path)}/{name}" for name in os.listdir(self._at(path))]
        return [await self._info(name) for name in names] if detail else names

    async def _pipe_file(self, path: str, value: bytes, **_: Any) -> None:
        await self._request()
        if self.refuses:
            raise PermissionError(13, "Permission denied", path)
        self._at(path).parent.mkdir(parents=True, exist_ok=True)
        self._at(path).write_bytes(value)

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        self._at(path).mkdir(parents=True, exist_ok=True)

    async def _rm_file(self, path: str, **_: Any) -> None:
        self._at(path).unlink()


fsspec.register_implementation("slow", SlowFileSystem, clobber=True)
