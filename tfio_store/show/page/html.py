"""A report as one HTML file, which asks the network for nothing.

The file holds the scripts, the style and the facts. Its policy (CSP) lets run what has the hash of
these scripts, and nothing else: text of records stays text. Where no script runs, the page shows
its header, its findings and a table of features.
"""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from typing import Any

from tfio_store.show.model import Facts
from tfio_store.show.page.assets import SCRIPTS, STYLE, asset
from tfio_store.show.page.fitting import fitted
from tfio_store.show.page.plain import plain_html, short_name

__all__ = ["FIRST_LINES", "frame_of", "page_of"]

FIRST_LINES = b"<!doctype html>\n<!-- a report of tfio_store -->\n"
"""Of every report, by which an older one is known."""

_IN_SCRIPT = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
"""What could end a script element, or a line of one."""


def page_of(facts: Facts) -> str:
    """The file's text, below 10 MB. It may hold no surrogates, so that it is always UTF-8."""
    facts = fitted(facts)
    scripts = [_script(name) for name in (*SCRIPTS, "boot.js")]
    style = asset(STYLE)
    page = f"""{FIRST_LINES.decode()}<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(scripts, style)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{escape(short_name(facts.header.source))}: tfio_store report</title>
<style>{style}</style>
</head>
<body>
<div id="report">
{plain_html(facts)}
</div>
<script type="application/json" id="facts">{_json(facts.to_json())}</script>
{"".join(f"<script>{text}</script>" for text in scripts)}
</body>
</html>
"""
    return page.encode("utf-8", "replace").decode("utf-8")


def frame_of(page: str, *, height: int = 720) -> str:
    """A page within another, such as a notebook, which its scripts cannot touch."""
    return (
        f'<iframe srcdoc="{escape(page)}" sandbox="allow-scripts" title="tfio_store report" '
        f'width="100%" height="{height}" style="border: 1px solid #8884"></iframe>'
    )


def _script(name: str) -> str:
    text = asset(name)
    if "</script" in text.lower() or "<!--" in text:
        raise ValueError(f"{name} cannot stand in a page: it would end its own element")
    return text


def _policy(scripts: list[str], style: str) -> str:
    """Scripts and styles by their hashes, media of the page's own bytes, no connection."""
    allowed = " ".join(map(_source, scripts))
    return (
        f"default-src 'none'; script-src {allowed}; style-src {_source(style)}; img-src data:; "
        "media-src data:; base-uri 'none'; form-action 'none'"
    )


def _source(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_IN_SCRIPT)
