"""A test of the tests: `DoorTests` passes a right door, and fails each of many wrong ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.doors.test_readers import ReaderTests
from tests.storage.test_wrong_stores import cases
from tfio_store.testing import Site


class RightDoor(ReaderTests):
    wrong = {"memory_budget": (0,)}  # noqa: RUF012

    def open(self, source: Any, **options: Any) -> Any:
        return tfs.RecordReader(source, **options)


class LosesTheLast(RightDoor):
    def steps(self, opened: Any) -> Iterator[Any]:
        found = list(opened)
        return iter(found[:-1])


class ComesBackwards(RightDoor):
    def steps(self, opened: Any) -> Iterator[Any]:
        return reversed(list(opened))


class EndsAtDamage(RightDoor):
    def steps(self, opened: Any) -> Iterator[Any]:
        try:
            yield from opened
        except tfs.DataLossError:
            return


class SkipsInSilence(RightDoor):
    def open(self, source: Any, **options: Any) -> Any:
        return tfs.RecordReader(source, **{**options, "on_corrupt": lambda region: None})


class SwallowsOptions(RightDoor):
    def open(self, source: Any, **options: Any) -> Any:
        return tfs.RecordReader(source, storage=options["storage"])


class HidesTheName(RightDoor):
    def open(self, source: Any, **options: Any) -> Any:
        try:
            return tfs.RecordReader(source, **options)
        except FileNotFoundError:
            raise FileNotFoundError("there is no such file") from None


class ReadsFilesWithoutTheirIndex(RightDoor):
    """The newest version of each, whatever a manifest says."""

    def open(self, source: Any, **options: Any) -> Any:
        return tfs.RecordReader(sorted(map(str, Path(source).parent.glob("train-*"))), **options)

    def steps(self, opened: Any) -> Iterator[Any]:
        for shard in opened.dataset.shards:
            with open(shard.url, "rb") as file:
                yield from tfs.RecordReader(file)


class PicklesItsRecords(RightDoor):
    def open(self, source: Any, **options: Any) -> Any:
        return [bytes(record) + bytes(200) for record in tfs.RecordReader(source, **options)]


class KeepsFilesOpen(RightDoor):
    def steps(self, opened: Any) -> Iterator[Any]:
        KEPT.append(open(opened.dataset.shards[0].url, "rb"))  # noqa: SIM115
        return iter(opened)


KEPT: list[Any] = []


class StandsOneBehind(RightDoor):
    def state(self, opened: Any, steps: Any) -> Any:
        state = opened.state()
        return state | {"records": max(0, state["records"] - 1)}


class TakesAnyState(RightDoor):
    def resume(self, opened: Any, state: Any) -> Any:
        return iter(opened)


class TellsItsKey(RightDoor):
    def state(self, opened: Any, steps: Any) -> Any:
        return {**opened.state(), "key": "S3CR3T"}


class SharesOverlap(RightDoor):
    def share(self, source: Any, index: int, count: int, **options: Any) -> Any:
        return self.open(source, **options).shard(0, count)


class ShufflesAtRandom(RightDoor):
    seeds = itertools.count()

    def shuffle(self, source: Any, seed: int, **options: Any) -> Any:
        return self.open(source, **options).shuffle(next(self.seeds))


WRONG: dict[type[RightDoor], str] = {
    LosesTheLast: "test_each_record_comes_once_in_each_pass",
    ComesBackwards: "test_files_of_a_pattern_come_by_name",
    EndsAtDamage: "test_a_cut_file_has_no_silent_end",
    SkipsInSilence: "test_damage_is_named",
    SwallowsOptions: "test_wrong_options_are_refused_by_name",
    HidesTheName: "test_what_is_missing_is_named",
    ReadsFilesWithoutTheirIndex: "test_swapped_shards_are_found_out",
    PicklesItsRecords: "test_a_small_pickle_reads_the_same",
    KeepsFilesOpen: "test_dropped_passes_leave_nothing",
    StandsOneBehind: "test_a_state_goes_on_with_the_very_next_record",
    TakesAnyState: "test_a_state_of_another_source_is_refused",
    TellsItsKey: "test_a_state_holds_no_secret",
    SharesOverlap: "test_shares_hold_each_record_once",
    ShufflesAtRandom: "test_a_seed_is_one_order_of_all_records",
}


def fault_found(door: RightDoor, name: str, folder: Path) -> BaseException | None:
    """How a test fails of a door, if it does."""
    test = getattr(door, name)
    for number, case in enumerate(cases(test)):
        (folder / f"{number}").mkdir(parents=True)
        given = {} if name.endswith("no_secret") else {"site": Site(f"{folder}/{number}")}
        try:
            test(**given, **case)
        except (Exception, pytest.fail.Exception) as fault:
            return fault
    return None


@pytest.mark.parametrize("door", WRONG)
def test_a_wrong_door_fails_where_the_right_one_passes(
    door: type[RightDoor], tmp_path: Path
) -> None:
    assert fault_found(RightDoor(), WRONG[door], tmp_path / "right") is None
    fault = fault_found(door(), WRONG[door], tmp_path / "wrong")
    assert isinstance(fault, AssertionError | pytest.fail.Exception | StopIteration), fault
    KEPT.clear()
