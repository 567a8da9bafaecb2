"""When an object was written, in all the forms in which stores tell it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from tfio_store.storage.store import seconds_of

SECONDS = 1_700_000_000.0


@pytest.mark.parametrize(
    "told",
    [
        SECONDS,
        int(SECONDS),
        datetime.fromtimestamp(SECONDS, timezone.utc),
        datetime.fromtimestamp(SECONDS, timezone(timedelta(hours=-7))),
        datetime.fromtimestamp(SECONDS, timezone.utc).replace(tzinfo=None),
        "2023-11-14T22:13:20Z",
        "2023-11-14T22:13:20+00:00",
        "Tue, 14 Nov 2023 22:13:20 GMT",
    ],
    ids=repr,
)
def test_a_time(told: object) -> None:
    assert seconds_of(told) == SECONDS


@pytest.mark.parametrize("told", [None, "", "yesterday", "1,2", True, float("nan"), b"2023", [1]])
def test_no_time(told: object) -> None:
    assert seconds_of(told) is None
