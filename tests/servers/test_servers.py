"""The places that other tests stand on."""

from __future__ import annotations

import pytest

from tests.servers.place import Place


def test_a_place_keeps_objects(place: Place) -> None:
    assert place.names() == []
    place.put("a/b.bin", b"abc")
    assert place.names() == ["a/b.bin"]
    assert place.get("a/b.bin") == b"abc"


def test_places_are_apart(s3: Place) -> None:
    assert s3.names() == []


@pytest.mark.parametrize("cloud", ["s3", "gcs", "azure"])
@pytest.mark.parametrize("end", [b"\r", b"\n", b"\r\n", b"\n\r"])
def test_what_a_place_is_given_keeps_its_end(
    request: pytest.FixtureRequest, cloud: str, end: bytes
) -> None:
    place: Place = request.getfixturevalue(cloud)
    place.put("a", b"abc" + end)
    assert place.get("a") == b"abc" + end
