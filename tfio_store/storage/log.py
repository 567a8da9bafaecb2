"""The library's one logger, ``tfio_store``: what it does on its own that a person may ask about."""

from __future__ import annotations

import logging

__all__ = ["log"]

log = logging.getLogger("tfio_store")
