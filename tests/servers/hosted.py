"""``hosted://user@host/path``: a filesystem whose URLs name a host, as those of FTP and HDFS do.

Each host is a folder under ``hosts``, an option as storage_options= takes them.
"""

from __future__ import annotations

from typing import Any

import fsspec
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import infer_storage_options

__all__ = ["HostedFileSystem"]


class HostedFileSystem(DirFileSystem):
    protocol = "hosted"

    def __init__(self, host: str, hosts: str, username: str = "", password: str = "") -> None:
        super().__init__(path=f"{hosts}/{host}", fs=LocalFileSystem(auto_mkdir=True))
        self.login = username, password

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        if "://" in path:
            path = path.partition("://")[2].partition("/")[2]
        return path.strip("/")

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        found = infer_storage_options(path)
        return {name: found[name] for name in ("host", "username", "password") if name in found}


fsspec.register_implementation("hosted", HostedFileSystem, clobber=True)
