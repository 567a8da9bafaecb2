"""The short form of ``make long ONLY=chaos-read``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos_read import faults, run
from tests.chaos_read.faults import Fault
from tests.chaos_read.reads import Seen
from tests.chaos_read.sites import site
from tests.chaos_read.verdict import WrongError, verdict


@pytest.fixture(autouse=True)
def ranges() -> Iterator[None]:
    with run.small_ranges():
        yield


@pytest.mark.parametrize(("name", "reads"), [("local", 30), ("memory", 20), ("http", 10)])
def test_reads_under_fire(name: str, reads: int) -> None:
    with site(name) as met:
        for seed in range(reads):
            run.one(seed, met, tensorflow=False)


def test_foreign_things_in_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "draw", lambda *_, **__: Fault(faults.CACHE))
    with site("http") as met:
        for seed in range(8):
            told = run.one(seed, met, tensorflow=False)
            assert told[2] in ("all records", "some records")


@pytest.mark.parametrize("name", ["moto", "moto+obstore"])
def test_reads_from_s3_under_fire(s3_server: str, name: str) -> None:
    if name.endswith("obstore"):
        pytest.importorskip("obstore")
    with site(name) as met:
        for seed in range(6):
            run.one(seed, met, tensorflow=False)


@pytest.mark.parametrize("seed", [1795322795])
def test_a_damaged_stream_may_repeat_what_came_before(seed: int) -> None:
    with site("local") as met:
        assert run.one(seed, met, tensorflow=True) == (
            "zeros", "shuffle skipping", "some skipped, and told"
        )  # fmt: skip


OLD, NEW = [b"a", b"b", b"c"], [b"x", b"y", b"z"]


@pytest.mark.parametrize(
    ("seen", "wrong"),
    [
        (Seen([b"a", b"b"]), "missing, and no word"),
        (Seen([b"a", b"b", b"b", b"c"]), "twice"),
        (Seen([b"a", b"y", b"z"]), "two generations"),
        (Seen([b"b", b"a", b"c"]), "out of order"),
        (Seen([b"a", b"c"], OSError("case-1")), "before the error"),
        (Seen([b"a"], KeyError("case-1")), "nobody announced"),
        (Seen([b"a"], OSError("no name")), "names no file"),
    ],
)
def test_the_verdict_sees_what_is_wrong(seen: Seen, wrong: str) -> None:
    with pytest.raises(WrongError, match=wrong):
        verdict(seen, Fault("cut"), [OLD, NEW], skip=False)


@pytest.mark.parametrize(
    ("seen", "became"),
    [
        (Seen(OLD), "all records"),
        (Seen(NEW), "all records"),
        (Seen([b"a"], OSError("case-1")), "error: OSError"),
    ],
)
def test_the_verdict_lets_pass_what_is_right(seen: Seen, became: str) -> None:
    assert verdict(seen, Fault("cut"), [OLD, NEW], skip=False) == became


def test_what_is_skipped_must_be_told() -> None:
    with pytest.raises(WrongError, match="without a word"):
        verdict(Seen([b"a"]), Fault("cut"), [OLD], skip=True)
    assert verdict(Seen([b"a"], said=1), Fault("cut"), [OLD], skip=True) == "some skipped, and told"


def test_a_state_stands_where_other_bytes_are_damaged_now() -> None:
    """A line that flips bits flips others each time."""
    seen = Seen(
        [b"a"], ValueError("state= stands behind record 7 of a file that has fewer"), said=1
    )
    assert verdict(seen, Fault("flipped"), [OLD], skip=True).startswith("a state behind")
    with pytest.raises(WrongError, match="nobody announced"):
        verdict(seen, Fault("flip"), [OLD], skip=True)
