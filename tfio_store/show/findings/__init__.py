"""Findings: what is odd about a dataset, in sentences with their numbers.

A finding must be worth a look: nothing here is odd for data as people have them.
"""

from __future__ import annotations

from collections.abc import Iterator

from tfio_store.show.findings.of_features import (
    class_findings,
    feature_findings,
    media_findings,
    string_findings,
)
from tfio_store.show.findings.of_files import file_findings, record_findings
from tfio_store.show.model import Finding, ShardSizes
from tfio_store.show.sample import Sample

_ORDER = ("error", "warning", "note")
_MOST_EACH = 20


def findings_of(sample: Sample, sizes: ShardSizes) -> tuple[Finding, ...]:
    """The findings, the worst first. Of one kind at most 20."""
    found: list[Finding] = []
    kinds: dict[str, int] = {}
    for finding in _all(sample, sizes):
        kinds[finding.kind] = kinds.get(finding.kind, 0) + 1
        if kinds[finding.kind] <= _MOST_EACH:
            found.append(finding)
    return tuple(sorted(found, key=lambda each: _ORDER.index(each.level)))


def _all(sample: Sample, sizes: ShardSizes) -> Iterator[Finding]:
    yield from file_findings(sample, sizes)
    yield from record_findings(sample)
    yield from feature_findings(sample)
    for tally in sample.tallies.features.values():
        yield from class_findings(tally)
        yield from string_findings(tally)
    yield from media_findings(sample)
