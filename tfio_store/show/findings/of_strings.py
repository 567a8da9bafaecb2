"""Findings of texts."""

from __future__ import annotations

from collections.abc import Iterator

from tfio_store.show.counting.features import shown_name
from tfio_store.show.counting.strings import Issue
from tfio_store.show.counting.tally import FeatureTally
from tfio_store.show.model import Finding, Level
from tfio_store.show.words import number, percent

__all__ = ["string_findings"]


def string_findings(tally: FeatureTally) -> Iterator[Finding]:
    """What is odd about the letters of a feature that is text for the most part."""
    strings = tally.strings
    declared = tally.feature is not None and tally.feature.dtype == "str"
    if not strings.looked_at or not (declared or 2 * strings.texts >= strings.looked_at):
        return
    yield from _told(tally, "not-utf8", "warning", strings.not_utf8, "{are} not UTF-8")
    text = "{hold} the character that stands for lost ones, \N{REPLACEMENT CHARACTER}"
    yield from _told(tally, "lost-letters", "warning", strings.lost, text)
    text = "{look} as if UTF-8 had been taken for Latin-1: \u201cÃ¼\u201d for \u201cü\u201d"
    yield from _told(tally, "mojibake", "warning", strings.twice, text)
    many = strings.empty.count * 10 >= strings.given
    yield from _told(
        tally, "empty-text", "warning" if many else "note", strings.empty, "{are} empty"
    )


def _told(
    tally: FeatureTally, kind: str, level: Level, issue: Issue, what: str
) -> Iterator[Finding]:
    if not issue.count:
        return
    name, total = shown_name(tally.name), tally.strings.given
    one = issue.count == 1
    verbs = {"are": "is", "hold": "holds", "look": "looks"}
    what = what.format(**{many: single if one else many for many, single in verbs.items()})
    text = (
        f"feature {name}: {number(issue.count)} of {number(total)} texts "
        f"({percent(issue.count / total)}) {what}"
    )
    yield Finding(kind, level, text, name, rows=tuple(issue.rows))
