"""The part of a report that needs no script: what the source is, what is odd, and its features."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from tfio_store.show.model import Facts, FeatureFacts, Finding, Scope

__all__ = ["nbytes_text", "plain_html", "scope_text", "short_name"]

_MOST_FEATURES = 500
_MOST_FINDINGS = 100
_LONGEST = 300


def plain_html(facts: Facts) -> str:
    """Markup, with all text escaped."""
    head, scope = facts.header, facts.scope
    records = "unknown" if head.records is None else f"{head.records:,}"
    tiles = [
        ("records", records),
        ("stored", nbytes_text(head.nbytes)),
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
    """What was looked at, in a sentence or two."""
    known = scope.of_records not in (None, scope.records) and not scope.full
    records = f"{scope.records:,} of {scope.of_records:,}" if known else f"{scope.records:,}"
    told = f"{records} records, {nbytes_text(scope.nbytes)}"
    if scope.full:
        return f"All was looked at: {told}."
    what = "spots" if scope.spots else "blocks"
    of_blocks = "" if scope.of_blocks is None else f" of {scope.of_blocks:,}"
    return f"From {scope.blocks:,}{of_blocks} {what}: {told}. Seed {scope.seed}."


def short_name(source: str) -> str:
    """The last part of a URL or path."""
    return source.rstrip("/").rpartition("/")[2] or source


def nbytes_text(nbytes: float) -> str:
    """As 1.4 GiB."""
    if nbytes < 1024:
        return f"{nbytes:,.0f} B"
    units = ["KiB", "MiB", "GiB", "TiB", "PiB"]
    value = nbytes / 1024
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.1f} {units[0]}" if value < 10 else f"{value:,.0f} {units[0]}"


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
