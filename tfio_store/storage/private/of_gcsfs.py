"""What we need of gcsfs and have no public way to get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["location", "open_session", "request_headers", "request_params", "uses_mtls"]


async def open_session(fs: Any) -> None:
    """Let ``fs.session`` be open."""
    await fs._set_session()


def location(fs: Any) -> str:
    """The endpoint, without a slash at its end."""
    found: str = fs._location
    return found.rstrip("/")


def request_params(fs: Any, params: Mapping[str, str | None]) -> dict[str, str]:
    """``params`` without those of None, and what the user's options add to each request."""
    found: dict[str, str] = fs._get_params(params)
    return found


def request_headers(fs: Any, headers: Mapping[str, str] | None = None) -> dict[str, str]:
    """``headers``, and the credentials' own. It may wait for a fresh token."""
    found: dict[str, str] = fs._get_headers(headers)
    return found


def uses_mtls(fs: Any) -> bool:
    """Whether the client shows a certificate of its own."""
    return bool(getattr(fs, "_use_client_cert", False))  # older gcsfs can't
