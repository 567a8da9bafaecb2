"""What we need of Azure's SDK, which adlfs uses, and have no public way to get."""

from __future__ import annotations

from typing import Any

__all__ = ["proxies"]


def proxies(service: Any) -> Any:
    """The proxies that a service client goes through. Empty or None for none."""
    return service._config.proxy_policy.proxies
