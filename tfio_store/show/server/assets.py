"""The page and its own files, by an allow-list: a name that is asked for is looked up, never
opened."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tfio_store.show.page import SCRIPTS, STYLE, asset

__all__ = ["Asset", "assets", "page"]

_SCRIPTS = (
    *SCRIPTS,
    "view/asking.js",
    "view/route.js",
    "view/lists.js",
    "view/record.js",
    "view/finding.js",
    "view/keys.js",
    "view/view.js",
)
_STYLES = (STYLE, "view.css")

_TYPES = {"js": "text/javascript", "css": "text/css"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the page."""

    content: bytes
    media_type: str


@cache
def assets() -> dict[str, Asset]:
    """The files of the page, by their names in `show/static`: "view.css", "view/view.js"."""
    return {
        name: Asset(asset(name).encode(), _TYPES[name.rpartition(".")[2]])
        for name in (*_SCRIPTS, *_STYLES)
    }


@cache
def page() -> Asset:
    """The page. It holds nothing of any dataset: its scripts ask for that."""
    styles = "".join(f'<link rel="stylesheet" href="/static/{name}">\n' for name in _STYLES)
    scripts = "".join(f'<script defer src="/static/{name}"></script>\n' for name in _SCRIPTS)
    text = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>tfio-store view</title>
{styles}{scripts}</head>
<body>
<div id="view"><noscript>This page needs its scripts. tfio-store report writes one that is readable
without.</noscript></div>
</body>
</html>
"""
    return Asset(text.encode(), "text/html")
