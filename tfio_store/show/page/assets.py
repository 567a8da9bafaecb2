"""The scripts and the style of pages: small classic scripts that share one global, ``tfio``.

A report holds their texts, and the local page fetches them. Either needs them in this order.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

__all__ = ["SCRIPTS", "STYLE", "asset"]

SCRIPTS = (
    "vendor/d3.min.js",
    "vendor/plot.umd.min.js",
    "format.js",
    "dom.js",
    "charts.js",
    "media.js",
    "overview.js",
    "features.js",
    "shards.js",
    "report.js",
)
"""All that ``tfio.renderReport(root, facts, options)`` needs."""

STYLE = "style.css"


@cache
def asset(name: str) -> str:
    """The text of a file of ``static/``."""
    return files("tfio_store.show").joinpath("static", *name.split("/")).read_text("utf-8")
