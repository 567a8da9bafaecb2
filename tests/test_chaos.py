"""The short form of ``make long ONLY=chaos``: writers killed, writers on a bad line, and crowds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.__main__ import CROWD_LINE
from tests.chaos.crowd import crowd_at
from tests.chaos.faults import write_through_faults
from tests.chaos.kill import kill_writers
from tests.chaos.sites import bad_line
from tests.servers.place import Place
from tests.servers.shaping_proxy import Shaped


@pytest.mark.long
def test_killed_writers_on_local_files(tmp_path: Path) -> None:
    kill_writers(Place(str(tmp_path)), 20)


@pytest.mark.long
def test_killed_writers_on_s3(s3: Place) -> None:
    kill_writers(s3, 8)


@pytest.mark.long
@pytest.mark.parametrize("attempts", [1, 8])
def test_writers_on_a_bad_line(s3: Place, shaped: Callable[..., Shaped], attempts: int) -> None:
    line = shaped(
        s3.endpoint, p_503=0.05, p_reset=0.05, p_truncate=0.05, p_stall=0.01, stall_s=6, seed=5
    )
    counts = write_through_faults(s3, s3.through(line.endpoint), 8, attempts=attempts)
    if attempts == 8:
        assert counts["committed"] == 8


@pytest.mark.long
@pytest.mark.parametrize("server", ["local", "s3", "gcs", "azure"])
def test_a_crowd(server: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    (tmp_path / "diaries").mkdir()
    local = server == "local"
    place = Place(str(tmp_path / "data")) if local else request.getfixturevalue(server)
    crowd_at(place, tmp_path / "diaries", 3)


@pytest.mark.long
def test_a_crowd_on_a_bad_line(s3: Place, tmp_path: Path) -> None:
    with bad_line(s3, seed=7, **CROWD_LINE) as line:
        crowd_at(s3, tmp_path, 4, line=line, seed=7)
