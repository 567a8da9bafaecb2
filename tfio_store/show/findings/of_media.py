"""Findings of images and audio."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tfio_store.show.features import role_of, shown_name
from tfio_store.show.gallery import Candidate
from tfio_store.show.model import Finding, counted, number, percent
from tfio_store.show.sample import Sample
from tfio_store.show.tally import FeatureTally

__all__ = ["media_findings"]

_USUAL = 0.8
_LEAST = 10


def media_findings(sample: Sample) -> Iterator[Finding]:
    """Findings about the images that were looked at, and about media that come again."""
    looked: dict[str, list[Candidate]] = {}
    for each in sample.gallery.candidates["image"]:
        if not each.look.passed_over:
            looked.setdefault(each.feature, []).append(each)
    for name, mine in looked.items():
        yield from _broken(shown_name(name), mine)
        sound = [each for each in mine if not each.look.broken]
        yield from _blank(shown_name(name), sound)
        yield from _mixed(shown_name(name), sound)
    for tally in (*sample.tallies.features.values(), sample.tallies.whole):
        pixels = tally.name in sample.gallery.pixels
        if tally.values and (pixels or role_of(tally) in ("image", "audio")):
            yield from _repeated(tally)


def _broken(name: str, mine: list[Candidate]) -> Iterator[Finding]:
    bad = [each for each in mine if each.look.broken]
    if not bad:
        return
    reason, _ = Counter(each.look.broken for each in bad).most_common(1)[0]
    text = (
        f"feature {name}: {number(len(bad))} of {counted(len(mine), 'image')} that were decoded "
        f"{'is' if len(bad) == 1 else 'are'} broken: {reason}"
    )
    yield Finding("broken-image", "error", text, name, rows=_rows(bad))


def _blank(name: str, mine: list[Candidate]) -> Iterator[Finding]:
    blank = [each for each in mine if each.look.blank and each.look.width * each.look.height > 1]
    if blank:
        text = (
            f"feature {name}: {number(len(blank))} of {counted(len(mine), 'image')} that were "
            f"decoded {'is' if len(blank) == 1 else 'are'} of one colour"
        )
        yield Finding("blank-image", "warning", text, name, rows=_rows(blank))


def _mixed(name: str, mine: list[Candidate]) -> Iterator[Finding]:
    """Images that differ from nearly all others. Where all differ, that is how photos are."""
    sizes = Counter((each.look.width, each.look.height) for each in mine if each.look.width)
    modes = Counter(each.look.mode for each in mine if each.look.mode)
    if len(modes) > 1:
        held = ", ".join(f"{number(n)} {mode}" for mode, n in modes.most_common(5))
        usual = modes.most_common(1)[0][0]
        odd = [each for each in mine if each.look.mode not in (usual, "")]
        text = f"feature {name}: images are of several kinds: {held}"
        yield Finding("mixed-images", "note", text, name, rows=_rows(odd))
    total = sum(sizes.values())
    if len(sizes) < 2 or total < _LEAST:
        return
    (width, height), count = sizes.most_common(1)[0]
    if count >= _USUAL * total:
        odd = [each for each in mine if (each.look.width, each.look.height) != (width, height)]
        text = (
            f"feature {name}: {number(total - count)} of {counted(total, 'image')} are not "
            f"{width}x{height} as the others"
        )
        yield Finding("mixed-sizes", "note", text, name, rows=_rows(odd))


def _repeated(tally: FeatureTally) -> Iterator[Finding]:
    strings = tally.strings
    if strings.counted is None or not strings.repeats:
        return
    again = sum(strings.counted[name] - 1 for name in strings.repeats)
    share = again / strings.given
    first = max(strings.repeats, key=lambda name: (strings.counted or Counter())[name])
    most = strings.counted[first]
    name = shown_name(tally.name)
    text = (
        f"feature {name}: {number(again)} of {number(strings.given)} values ({percent(share)}) are "
        f"the same as an earlier one; one comes {number(most)} times"
    )
    rows = tuple(row for row in strings.repeats[first] if row >= 0)
    yield Finding("same-value", "warning" if share >= 0.01 else "note", text, name, rows=rows)


def _rows(mine: list[Candidate]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(each.row for each in mine if each.row >= 0))[:100]
