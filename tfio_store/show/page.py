"""A report as one HTML file, which asks the network for nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any, TypeVar

from tfio_store.show.model import Facts, FeatureFacts, Finding, Item, Scope, size
from tfio_store.storage import Storage
from tfio_store.storage.storage import for_writing

# The scripts and the style of a report: small classic scripts that share one global, ``tfio``, in
# this order.


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
"""All that ``tfio.renderReport(root, facts)`` needs."""

STYLE = "style.css"


@cache
def asset(name: str) -> str:
    """The text of a file of ``static/``."""
    return files("tfio_store.show").joinpath("static", *name.split("/")).read_text("utf-8")


# Facts that fit a page: what there is too much of is left out, and the page says so.


Value = TypeVar("Value")

MOST_BYTES = 8_000_000
"""Bytes of a page, so that it stays below 10 MB with its scripts."""

_ROOM = {"findings": 0.05, "shards": 0.1, "sizes": 0.05, "damage": 0.05, "schema": 0.05}
"""The part of a page that a list may take. Items get what is left."""

_FEATURES_ROOM = 0.5


def fitted(facts: Facts, most: int = MOST_BYTES) -> Facts:
    """``facts`` whose JSON text is below ``most`` bytes, or the same if it is."""
    plain = facts.to_json()
    if _size(plain) <= most:
        return facts
    left_out = list(facts.scope.left_out)
    kept: dict[str, Any] = {"schema": facts.header.schema}
    used = 4000 + _size(plain["places"])
    for name, part in _ROOM.items():
        values = facts.header.schema if name == "schema" else getattr(facts, name)
        sizes = list(map(_size, plain["header"]["schema"] if name == "schema" else plain[name]))
        chosen = _while_they_fit(range(len(values)), sizes, int(most * part))
        used += sum(sizes[i] for i in chosen)
        kept[name] = tuple(values[i] for i in chosen)
        if len(chosen) < len(values):
            left_out.append(f"{name}: {len(values) - len(chosen):,} of {len(values):,} do not fit")
    features, taken = _fitting_features(facts.features, int(most * _FEATURES_ROOM), left_out)
    sizes = list(map(_size, plain["items"]))
    items = _while_they_fit(_in_turn(facts.items), sizes, most - used - taken)
    if len(items) < len(sizes):
        gone = len(sizes) - len(items)
        left_out.append(f"{gone:,} of {len(sizes):,} images, texts and sounds do not fit")
    return replace(
        facts,
        header=replace(facts.header, schema=kept.pop("schema")),
        **kept,
        features=features,
        scope=replace(facts.scope, left_out=tuple(left_out)),
        items=tuple(facts.items[i] for i in sorted(items)),
    )


def _fitting_features(
    features: Sequence[FeatureFacts], room: int, left_out: list[str]
) -> tuple[tuple[FeatureFacts, ...], int]:
    """Those that fit, and their size. The last ones lose their charts before any is left out."""
    bare = [replace(one, histogram=None, lengths=None, top=()) for one in features]
    sizes = [_size(asdict(one)) for one in bare]
    kept = _while_they_fit(range(len(bare)), sizes, room)
    taken = sum(sizes[i] for i in kept)
    more = [_size(asdict(features[i])) - sizes[i] for i in kept]
    whole = {kept[k] for k in _while_they_fit(range(len(kept)), more, room - taken)}
    taken += sum(more[k] for k, i in enumerate(kept) if i in whole)
    if len(kept) < len(bare):
        left_out.append(f"features: {len(bare) - len(kept):,} of {len(bare):,} do not fit")
    if len(whole) < len(kept):
        left_out.append(f"charts of {len(kept) - len(whole):,} of {len(bare):,} features")
    return tuple(features[i] if i in whole else bare[i] for i in kept), taken


def _size(value: Any) -> int:
    """Bytes of its JSON text in a page, where some characters are escaped."""
    text = json.dumps(value, ensure_ascii=False)
    escaped = sum(map(text.count, "<>&"))
    return len(text.encode("utf-8", "replace")) + 5 * escaped + 2


def _while_they_fit(order: Iterable[int], sizes: Sequence[int], room: int) -> list[int]:
    """Those of ``order`` that fit into ``room`` together; a large one stays out alone."""
    kept = []
    for i in order:
        if sizes[i] <= room:
            room -= sizes[i]
            kept.append(i)
    return kept


def _in_turn(items: Sequence[Item]) -> list[int]:
    """The first item of each feature, then the second ones, and so on."""
    turns: dict[tuple[str, str], int] = {}
    order = []
    for i, item in enumerate(items):
        turn = turns.get((item.kind, item.feature), 0)
        turns[item.kind, item.feature] = turn + 1
        order.append((turn, i))
    return [i for _, i in sorted(order)]


# The part of a report that needs no script: what the source is, what is odd, and its features.


_MOST_FEATURES = 500
_MOST_FINDINGS = 100
_LONGEST = 300


def plain_html(facts: Facts) -> str:
    """Markup, with all text escaped."""
    head, scope = facts.header, facts.scope
    records = "unknown" if head.records is None else f"{head.records:,}"
    tiles = [
        ("records", records),
        ("stored", size(head.nbytes)),
        ("shards", f"{head.shards:,}"),
        ("codec", head.codec),
    ]
    shown = "".join(
        f'<div class="tile"><dt>{_text(name)}</dt><dd class="clip">{_text(value)}</dd></div>'
        for name, value in tiles
    )
    left_out = "".join(f"<li>{_text(each)}</li>" for each in scope.left_out)
    return f"""<header class="top">
<p class="eyebrow">TFRecord dataset</p>
<h1 class="clip">{_text(short_name(head.source))}</h1>
<p class="mono source">{_text(head.source)}</p>
<dl class="tiles">{shown}</dl>
<p class="scope">{_text(scope_text(scope))}</p>
{f'<ul class="left-out">{left_out}</ul>' if left_out else ""}
</header>
<main>
<section><h2>Findings</h2>{_findings(facts.findings)}</section>
<section><h2>Features</h2>{_features(facts.features)}</section>
</main>
<noscript><p class="left-out">Images, charts, shards and texts need JavaScript.</p></noscript>"""


def scope_text(scope: Scope) -> str:
    """The part that was looked at, in a sentence or two."""
    known = scope.of_records not in (None, scope.records) and not scope.full
    records = f"{scope.records:,} of {scope.of_records:,}" if known else f"{scope.records:,}"
    text = f"{records} records, {size(scope.nbytes)}"
    if scope.full:
        return f"All was looked at: {text}."
    what = "spots" if scope.spots else "blocks"
    of_blocks = "" if scope.of_blocks is None else f" of {scope.of_blocks:,}"
    return f"From {scope.blocks:,}{of_blocks} {what}: {text}. Seed {scope.seed}."


def short_name(source: str) -> str:
    """The last part of a URL or path."""
    return source.rstrip("/").rpartition("/")[2] or source


def _findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return '<p class="fine">Nothing odd was found.</p>'
    rows = "".join(
        f'<li class="finding {_text(one.level)}"><span class="level">{_text(one.level.title())}'
        f'</span><span class="said">{_text(one.text)}</span></li>'
        for one in findings[:_MOST_FINDINGS]
    )
    return f'<ul class="findings">{rows}</ul>{_rest(len(findings) - _MOST_FINDINGS)}'


def _features(features: Sequence[FeatureFacts]) -> str:
    names = ("feature", "dtype", "role", "in", "values", "least", "median", "most", "distinct")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    rows = "".join(_row(_feature_cells(one)) for one in features[:_MOST_FEATURES])
    table = f'<table class="rows"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return f'<div class="scroll">{table}</div>{_rest(len(features) - _MOST_FEATURES)}'


def _feature_cells(one: FeatureFacts) -> list[str]:
    median = one.quantiles[4] if len(one.quantiles) == 9 else None
    return [
        one.name,
        one.dtype,
        one.role,
        f"{one.present:,} of {one.records:,}",
        f"{one.values:,}",
        *("" if each is None else f"{each:.6g}" for each in (one.least, median, one.most)),
        "many" if one.distinct is None else f"{one.distinct:,}",
    ]


def _row(cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in cells) + "</tr>"


def _rest(count: int) -> str:
    return f'<p class="muted">… and {count:,} more.</p>' if count > 0 else ""


def _text(text: str) -> str:
    """Escaped, of bearable length, without the control characters that HTML forbids."""
    shown = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    return escape(re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "\ufffd", shown))


# A report as one HTML file, which asks the network for nothing.
#
# The file holds the scripts, the style and the facts. Its policy (CSP) lets run what has the hash
# of these scripts, and nothing else: text of records stays text. Where no script runs, the page
# shows its header, its findings and a table of features.


FIRST_LINES = b"<!doctype html>\n<!-- a report of tfio_store -->\n"
"""A mark in every report, by which an older one is known."""

_IN_SCRIPT = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
"""Text that could end a script element, or a line of one."""


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


def frame_of(page: str) -> str:
    """A page within another, such as a notebook, which its scripts cannot touch."""
    return (
        f'<iframe srcdoc="{escape(page)}" sandbox="allow-scripts" title="tfio_store report" '
        'width="100%" height="720" style="border: 1px solid #8884"></iframe>'
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


# Where a report is kept. A newer one takes the place of an older one, and of nothing else.


def save_page(page: str, url: str | os.PathLike[str], storage: Storage | None) -> str:
    """Write the page whole or not at all; the answer is its URL, to show.

    Raises:
        FileExistsError: There is something else than a report, such as a shard.
        OSError: The storage fails.
    """
    store, path = for_writing(storage).open(url)
    there = store.look(path)
    shown, data = store.url(path), page.encode()
    if there is None:
        store.put(path, data, if_absent=True)
        return shown
    begin = bytes(store.read(path, 0, min(there.size, len(FIRST_LINES)), etag=there.etag).result())
    if begin != FIRST_LINES:
        raise FileExistsError(f"{shown} exists, and is no report: choose another name")
    store.put(path, data, if_match=there.etag)
    return shown
