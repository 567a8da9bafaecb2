"""`facts_of`: all that a report says of a sample, and the images, sounds and texts that it
shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone

from tfio_store import __version__
from tfio_store.dataset.model import Dataset
from tfio_store.example.schema import Schema
from tfio_store.show.features import facts_of_feature, said, shown_name
from tfio_store.show.findings import findings_of
from tfio_store.show.gallery import Candidate, spread
from tfio_store.show.model import (
    Facts,
    FeatureFacts,
    Finding,
    Header,
    Item,
    Place,
    shard_bars,
    shard_sizes,
)
from tfio_store.show.sample import Sample
from tfio_store.show.tally import RECORD
from tfio_store.tables.media_types import visible

# The images, audio and texts that a report shows: a few of the candidates, within bounds.


_MOST = {"image": 48, "audio": 12, "text": 24}
_MOST_BYTES = 6 << 20


def items_of(sample: Sample, features: Sequence[FeatureFacts]) -> tuple[Item, ...]:
    """The items, images first. Together their files have at most 6 MiB."""
    roles = {feature.name: feature.role for feature in features}
    group = next((f.name for f in features if f.role == "class"), None)
    items: list[Item] = []
    room = _MOST_BYTES
    places = sample.places
    for kind, most in _MOST.items():
        found = [each for each in sample.gallery.candidates[kind] if _shown(each, roles)]
        for each in spread(found, most, group):
            nbytes = len(each.look.data) + len(each.data)
            if nbytes <= room:
                room -= nbytes
                items.append(_item(each, places[each.row]))
    return tuple(items)


def _shown(each: Candidate, roles: Mapping[str, str]) -> bool:
    if each.kind == "text":
        return roles.get(shown_name(each.feature)) == "text"
    return bool(each.look.data or each.data)


def _item(each: Candidate, place: Place) -> Item:
    captions = tuple((shown_name(name), visible(value)) for name, value in each.captions)
    look = each.look
    image = each.kind == "image"
    return Item(
        each.kind,  # type: ignore[arg-type]
        shown_name(each.feature),
        place,
        captions,
        each.nbytes,
        look.shortened if image else each.shortened,
        look.media_type if image else each.media_type,
        look.data if image else each.data,
        look.width,
        look.height,
        each.text,
    )


# `facts_of`: all that a report says of a sample.


_MOST_SCHEMA = 1000


def facts_of(sample: Sample) -> Facts:
    """The facts about a sample, in bounded lists.

    Args:
        sample (Sample): From `take_sample`.

    Returns:
        Facts: Plain values.
    """
    features = _features(sample)
    sizes = shard_sizes(sample.dataset, sample.counted)
    findings = findings_of(sample, sizes)
    items = items_of(sample, features)
    return Facts(
        header=_header(sample, features),
        scope=sample.scope,
        findings=findings,
        features=features,
        shards=shard_bars(sample.dataset, sizes),
        shards_median=sizes.median,
        sizes=tuple(sample.sizes),
        damage=tuple(sample.damage),
        items=items,
        places=_places(sample, findings, items),
    )


def _features(sample: Sample) -> tuple[FeatureFacts, ...]:
    """In the order of the schema, or of their names; what records hold that are no Examples comes
    last."""
    tallies = sample.tallies
    examples = tallies.records - tallies.odd.count
    order = {name: i for i, name in enumerate(sample.opened.schema or ())}
    every = sorted(
        tallies.features.values(), key=lambda each: (order.get(each.name, len(order)), each.name)
    )
    pixels = sample.gallery.pixels
    found = [facts_of_feature(each, examples, pixels=each.name in pixels) for each in every]
    if tallies.whole.present:
        found.append(facts_of_feature(tallies.whole, tallies.odd.count))
    return tuple(found)


def _header(sample: Sample, features: tuple[FeatureFacts, ...]) -> Header:
    opened, dataset = sample.opened, sample.dataset
    if opened.schema is not None:
        schema = _schema(opened.schema)
    else:
        schema = tuple((f.name, f.dtype) for f in features[:_MOST_SCHEMA] if f.name != RECORD)
    return Header(
        source=opened.name,
        records=sample.of_records,
        nbytes=dataset.nbytes,
        shards=len(dataset.shards),
        codec=_codec(dataset, sample.codecs),
        schema=schema,
        schema_source="manifest" if opened.schema is not None else "sample" if schema else "none",
        generation=opened.generation,
        written=_written(dataset),
        made=_iso(datetime.now(timezone.utc)),
        version=__version__,
    )


def _written(dataset: Dataset) -> str | None:
    """A shard that is gone is reported elsewhere."""
    if not len(dataset.shards):
        return None
    store, path = dataset.open(len(dataset.shards) - 1)
    with suppress(OSError, ValueError, OverflowError):
        modified = store.info(path).modified
        return None if modified is None else _iso(datetime.fromtimestamp(modified, timezone.utc))
    return None


def _iso(when: datetime) -> str:
    return when.isoformat(timespec="seconds")


def _schema(schema: Schema) -> tuple[tuple[str, str], ...]:
    pairs = list(schema.items())[:_MOST_SCHEMA]
    return tuple((shown_name(name), said(feature)) for name, feature in pairs)


def _codec(dataset: Dataset, looked: dict[int, str | None]) -> str:
    """The codecs of files, the most frequent first. Files that were not looked at have none."""
    found = Counter(looked.get(i, codec) for i, codec in enumerate(dataset.shards.codecs))
    names = ["none" if codec is None else codec for codec, _ in found.most_common()]
    known = [name for name in names if name != "auto"]
    return ", ".join(known) or ("none" if not names else "unknown")


def _places(
    sample: Sample, findings: tuple[Finding, ...], items: tuple[Item, ...]
) -> tuple[Place, ...]:
    rows = {row for finding in findings for row in finding.rows}
    rows |= {item.place.row for item in items}
    places = sample.places
    return tuple(places[row] for row in sorted(rows))
