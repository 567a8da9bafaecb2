"""The places that other tests stand on."""

from __future__ import annotations

from tests.servers.place import Place


def test_a_place_keeps_objects(place: Place) -> None:
    assert place.names() == []
    place.put("a/b.bin", b"abc")
    assert place.names() == ["a/b.bin"]
    assert place.get("a/b.bin") == b"abc"


def test_places_are_apart(s3: Place) -> None:
    assert s3.names() == []
