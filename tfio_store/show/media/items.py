"""The images, audio and texts that a report shows: a few of the candidates, within bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfio_store.show.counting.features import shown_name
from tfio_store.show.media.gallery import Candidate, spread
from tfio_store.show.media.text import visible
from tfio_store.show.model import FeatureFacts, Item, Place
from tfio_store.show.sampling.sample import Sample

__all__ = ["items_of"]

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
