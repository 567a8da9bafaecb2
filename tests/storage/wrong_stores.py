"""Stores that are wrong in one thing each, and the test of `tfio_store.testing` that finds it."""

from __future__ import annotations

import builtins
import contextlib
import errno
import os
import re
import threading
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import unquote

from typing_extensions import Buffer as BytesLike

from tests.storage.right_store import LOCK, OBJECTS, UPLOADS, RightOutput, RightStore, Stored
from tfio_store.storage import PendingUpload, Retry, Store, Version
from tfio_store.storage.local import LocalStore
from tfio_store.storage.registry import shared_store
from tfio_store.storage.store import ObjectInfo
from tfio_store.testing import Site

PAUSE = 0.01
"""Seconds in which others see what is half done."""

LOOKED: dict[str, threading.Event] = {}
"""What a racer who has looked, and found nothing, waits for: the next one."""


def let_another_look(url: str) -> None:
    """So that two racers believe that they won, however slowly their threads start."""
    with LOCK:
        other = LOOKED.pop(url, None)
        if other is None:
            met = LOOKED[url] = threading.Event()
    if other is not None:
        other.set()
    elif not met.wait(5):
        with LOCK:
            LOOKED.pop(url, None)


WRONG: dict[str, tuple[type[Any], str]] = {}
"""Of each scheme, the store and the name of the test."""

T = TypeVar("T", bound=type)


def caught_by(test: str) -> Callable[[T], T]:
    """The test fails this store, or a store that is right but for such outputs."""

    def note(kind: T) -> T:
        store: type[Any] = kind
        if issubclass(kind, RightOutput):

            def open_output(
                self: Any, path: str, *, if_match: str | None = None, **_: Any
            ) -> RightOutput:
                made: RightOutput = kind(self, path, if_match)
                return made

            store = type(kind.__name__, (RightStore,), {"open_output": open_output})
        scheme = re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()
        WRONG[scheme] = store, test
        return kind

    return note


class SiteByHand(Site):
    """A site of a store that no entry point tells of."""

    def open_url(self, url: str) -> tuple[Store, str]:
        scheme, _, path = url.partition("://")
        made = WRONG[scheme][0] if scheme in WRONG else RightStore
        return shared_store(made, scheme, {}, Retry(attempts=3)), path


# Names and addresses


@caught_by("test_any_name_goes_there_and_back")
class UnquotesNames(RightStore):
    def key(self, path: str) -> str:
        return unquote(path)


@caught_by("test_any_name_goes_there_and_back")
class CutsNamesAtHash(RightStore):
    def key(self, path: str) -> str:
        return path.partition("#")[0]


@caught_by("test_any_name_goes_there_and_back")
class CutsNamesAtQuestionMark(RightStore):
    def key(self, path: str) -> str:
        return path.partition("?")[0]


@caught_by("test_any_name_goes_there_and_back")
class NormalizesNames(RightStore):
    def key(self, path: str) -> str:
        return unicodedata.normalize("NFD", path)


@caught_by("test_any_name_goes_there_and_back")
class FlattensNames(RightStore):
    def key(self, path: str) -> str:
        root, _, name = path.partition("/")
        return f"{root}/{name.replace('/', '-')}"


@caught_by("test_url_is_what_a_person_types")
class UrlIsThePath(RightStore):
    def url(self, path: str) -> str:
        return path


@caught_by("test_an_address_opens_the_same_object")
class AddressOfAnotherObject(RightStore):
    def address(self, path: str) -> str:
        return f"{self._scheme}://elsewhere/{path}"


@caught_by("test_an_address_opens_the_same_object")
class QuotedAddress(RightStore):
    def address(self, path: str) -> str:
        return self.url(path).replace("%", "%25").replace("#", "%23")


# Looks


@caught_by("test_info_tells_when_an_object_was_written")
class KeepsNoTime(RightStore):
    def described(self, path: str, stored: Stored) -> ObjectInfo:
        return replace(super().described(path, stored), modified=None)


@caught_by("test_info_tells_when_an_object_was_written")
class TellsTimeOfAnotherZone(RightStore):
    def described(self, path: str, stored: Stored) -> ObjectInfo:
        return super().described(path, replace(stored, modified=stored.modified + 3600))


@caught_by("test_info_tells_versions_apart")
class EtagIsTheSize(RightStore):
    def described(self, path: str, stored: Stored) -> ObjectInfo:
        return replace(super().described(path, stored), etag=f"{len(stored.data)}")


@caught_by("test_what_is_missing_is_named")
class MissingIsAKeyError(RightStore):
    def found(self, path: str) -> Stored:
        return OBJECTS[path]


@caught_by("test_what_is_missing_is_named")
class MissingHasNoName(RightStore):
    def found(self, path: str) -> Stored:
        try:
            return super().found(path)
        except OSError as fault:
            fault.filename = None
            raise


@caught_by("test_what_is_missing_is_named")
class MissingReadsAsEmpty(RightStore):
    def piece(self, path: str, start: int, stop: int, version: Version) -> BytesLike:
        return super().piece(path, start, stop, version) if path in OBJECTS else b""


@caught_by("test_a_folder_is_no_object")
class FolderIsAnObject(RightStore):
    def found(self, path: str) -> Stored:
        return Stored(b"", "folder", 0) if self.below(path) else super().found(path)


@caught_by("test_a_folder_is_no_object")
class FolderIsMissing(RightStore):
    def found(self, path: str) -> Stored:
        try:
            return super().found(path)
        except IsADirectoryError as fault:
            raise FileNotFoundError(errno.ENOENT, "missing", fault.filename) from fault


@caught_by("test_a_look_answers_what_info_does")
class LooksAtNothing(RightStore):
    def look(self, path: str) -> ObjectInfo | None:
        return None


@caught_by("test_a_look_answers_what_info_does")
class RemembersLooks(RightStore):
    def look(self, path: str) -> ObjectInfo | None:
        kept: dict[str, ObjectInfo] = self.__dict__.setdefault("kept", {})
        if path not in kept:
            found = super().look(path)
            if found is None:
                return None
            kept[path] = found
        return kept[path]


@caught_by("test_a_look_answers_what_info_does")
class RemembersThatNothingWasThere(RightStore):
    def look(self, path: str) -> ObjectInfo | None:
        missing: set[str] = self.__dict__.setdefault("missing", set())
        found = None if path in missing else super().look(path)
        if found is None:
            missing.add(path)
        return found


@caught_by("test_a_look_answers_what_info_does")
class LookRaises(RightStore):
    def look(self, path: str) -> ObjectInfo | None:
        return self.info(path)


@caught_by("test_a_look_answers_what_info_does")
class LookHasNoVersion(RightStore):
    def look(self, path: str) -> ObjectInfo | None:
        found = super().look(path)
        return found and replace(found, etag=None)


@caught_by("test_a_look_answers_what_info_does")
class RemembersInfos(RightStore):
    def found(self, path: str) -> Stored:
        kept: dict[str, Stored] = self.__dict__.setdefault("kept", {})
        if path not in kept:
            kept[path] = super().found(path)
        return kept[path]


# Reading


@caught_by("test_a_range_ends_where_the_object_does")
class PadsRanges(RightStore):
    def piece(self, path: str, start: int, stop: int, version: Version) -> BytesLike:
        return bytes(super().piece(path, start, stop, version)).ljust(min(stop - start, 99), b"\0")


@caught_by("test_a_range_ends_where_the_object_does")
class RangesIncludeTheirEnd(RightStore):
    def piece(self, path: str, start: int, stop: int, version: Version) -> BytesLike:
        return super().piece(path, start, stop + 1, version)


@caught_by("test_a_range_ends_where_the_object_does")
class RefusesRangesBehindTheEnd(RightStore):
    def piece(self, path: str, start: int, stop: int, version: Version) -> BytesLike:
        if start > len(self.found(path).data):
            raise OSError(errno.EINVAL, "range not satisfiable", self.url(path))
        return super().piece(path, start, stop, version)


@caught_by("test_a_range_ends_where_the_object_does")
class EmptyRangeIsAll(RightStore):
    def piece(self, path: str, start: int, stop: int, version: Version) -> BytesLike:
        return super().piece(path, start, stop if stop > start else 1 << 40, version)


@caught_by("test_a_range_ends_where_the_object_does")
class IgnoresRanges(RightStore):
    def piece(self, path: str, start: int, stop: int, version: Version) -> BytesLike:
        return super().piece(path, 0, 1 << 40, version)


@caught_by("test_a_long_range_comes_whole")
class CapsReads(RightStore):
    def piece(self, path: str, start: int, stop: int, version: Version) -> BytesLike:
        return super().piece(path, start, min(stop, start + (1 << 16)), version)


@caught_by("test_a_long_range_comes_whole")
class CapsReadsAtAPart(RightStore):
    def piece(self, path: str, start: int, stop: int, version: Version) -> BytesLike:
        return super().piece(path, start, min(stop, start + (8 << 20)), version)


@caught_by("test_a_long_range_comes_whole")
class CapsGets(RightStore):
    def get(self, path: str, *, most: int | None = None) -> tuple[bytes, ObjectInfo]:
        data, info = super().get(path, most=most)
        return data[: 1 << 20], info


@caught_by("test_an_empty_object")
class EmptyIsMissing(RightStore):
    def found(self, path: str) -> Stored:
        stored = super().found(path)
        if not stored.data:
            raise FileNotFoundError(errno.ENOENT, "missing", self.url(path))
        return stored


@caught_by("test_many_ranges_at_once")
class OneBufferForAll(RightStore):
    def read(
        self, path: str, start: int, stop: int, *, etag: str | Version | None = None
    ) -> Future[BytesLike]:
        buffer: bytearray = self.__dict__.setdefault("buffer", bytearray(1 << 20))
        data = bytes(super().read(path, start, stop, etag=etag).result())
        buffer[: len(data)] = data
        done: Future[BytesLike] = Future()
        done.set_result(memoryview(buffer)[: len(data)])
        return done


@caught_by("test_threads_share_a_store")
class OneThreadOnly(RightStore):
    def found(self, path: str) -> Stored:
        self._path = path
        time.sleep(PAUSE)
        return super().found(self._path)


@caught_by("test_a_cancelled_read_leaves_the_store_in_order")
class CancelBreaksTheStore(RightStore):
    def read(
        self, path: str, start: int, stop: int, *, etag: str | Version | None = None
    ) -> Future[BytesLike]:
        if self.__dict__.get("broken"):
            raise ValueError("closed")
        future = super().read(path, start, stop, etag=etag)
        cancel = future.cancel

        def break_all() -> bool:
            self.__dict__["broken"] = True
            return cancel()

        future.cancel = break_all  # type: ignore[method-assign]
        return future


@caught_by("test_get_brings_all_and_tells_what")
class GetTellsNoVersion(RightStore):
    def get(self, path: str, *, most: int | None = None) -> tuple[bytes, ObjectInfo]:
        data, info = super().get(path, most=most)
        return data, replace(info, etag=None)


@caught_by("test_get_takes_no_more_than_it_may")
class GetHasNoLimit(RightStore):
    def get(self, path: str, *, most: int | None = None) -> tuple[bytes, ObjectInfo]:
        return super().get(path)


@caught_by("test_get_takes_no_more_than_it_may")
class GetCutsAtItsLimit(RightStore):
    def get(self, path: str, *, most: int | None = None) -> tuple[bytes, ObjectInfo]:
        data, info = super().get(path)
        return data[:most], info


@caught_by("test_get_brings_all_and_tells_what")
class GetRefusesItsLimit(RightStore):
    def get(self, path: str, *, most: int | None = None) -> tuple[bytes, ObjectInfo]:
        return super().get(path, most=None if most is None else most - 1)


@caught_by("test_get_while_the_object_is_replaced")
class GetLooksAfterwards(RightStore):
    def get(self, path: str, *, most: int | None = None) -> tuple[bytes, ObjectInfo]:
        data, _ = super().get(path, most=most)
        time.sleep(PAUSE)
        return data, self.info(path)


@caught_by("test_get_of_what_is_no_object")
class GetOfAFolderIsEmpty(RightStore):
    def get(self, path: str, *, most: int | None = None) -> tuple[bytes, ObjectInfo]:
        if self.below(path):
            return b"", ObjectInfo(path, 0)
        return super().get(path, most=most)


@caught_by("test_a_range_of_a_version")
class IgnoresVersions(RightStore):
    def piece(self, path: str, start: int, stop: int, version: Version) -> BytesLike:
        return super().piece(path, start, stop, Version())


@caught_by("test_a_range_of_a_version")
class IgnoresVersionsBehindTheEnd(RightStore):
    def piece(self, path: str, start: int, stop: int, version: Version) -> BytesLike:
        if start >= len(self.found(path).data):
            return b""
        return super().piece(path, start, stop, version)


@caught_by("test_a_version_is_learnt_with_the_first_range_and_held")
class LearnsNoVersion(RightStore):
    def piece(self, path: str, start: int, stop: int, version: Version) -> BytesLike:
        return super().piece(path, start, stop, Version(version.etag))


# Listing


@caught_by("test_list_is_deep_and_sorted")
class ListsOneLevel(RightStore):
    def below(self, folder: str) -> list[str]:
        return [name for name in super().below(folder) if "/" not in name[len(folder) + 1 :]]


@caught_by("test_list_is_deep_and_sorted")
class ListsUnsorted(RightStore):
    def list(self, folder: str) -> Iterator[ObjectInfo]:
        return reversed([*super().list(folder)])


@caught_by("test_list_is_deep_and_sorted")
class ListsNeighbours(RightStore):
    def below(self, folder: str) -> list[str]:
        return [name for name in OBJECTS if name.startswith(folder)]


@caught_by("test_list_is_deep_and_sorted")
class ListsNoSizes(RightStore):
    def list(self, folder: str) -> Iterator[ObjectInfo]:
        return (replace(found, size=0) for found in super().list(folder))


@caught_by("test_a_list_of_nothing")
class ListOfNothingFails(RightStore):
    def list(self, folder: str) -> Iterator[ObjectInfo]:
        if not self.below(folder):
            raise FileNotFoundError(errno.ENOENT, "missing", self.url(folder))
        return super().list(folder)


@caught_by("test_a_list_is_never_stale")
class RemembersLists(RightStore):
    def list(self, folder: str) -> Iterator[ObjectInfo]:
        kept: dict[str, Any] = self.__dict__.setdefault("kept", {})
        if folder not in kept:
            kept[folder] = [*super().list(folder)]
        return iter(kept[folder])


@caught_by("test_a_listing_tells_what_info_does")
class ListHasOtherVersions(RightStore):
    def list(self, folder: str) -> Iterator[ObjectInfo]:
        return (replace(found, etag=f'"{found.etag}"') for found in super().list(folder))

    def glob(self, pattern: str) -> builtins.list[ObjectInfo]:
        return [self.info(found.path) for found in super().glob(pattern)]


@caught_by("test_a_listing_tells_what_info_does")
class GlobHasNoVersions(RightStore):
    def glob(self, pattern: str) -> builtins.list[ObjectInfo]:
        return [replace(found, etag=None) for found in super().glob(pattern)]


@caught_by("test_a_listing_tells_what_info_does")
class GlobRemembersSizes(RightStore):
    def glob(self, pattern: str) -> builtins.list[ObjectInfo]:
        return [replace(found, size=9) for found in super().glob(pattern)]


@caught_by("test_glob")
class GlobGoesDeep(RightStore):
    def glob(self, pattern: str) -> builtins.list[ObjectInfo]:
        return super().glob(re.sub(r"(?<!\*)\*(?!\*)", "**", pattern))


@caught_by("test_glob")
class GlobKnowsNoSets(RightStore):
    def glob(self, pattern: str) -> builtins.list[ObjectInfo]:
        return [] if "[" in pattern else super().glob(pattern)


@caught_by("test_glob")
class GlobKnowsNoFolders(RightStore):
    def glob(self, pattern: str) -> builtins.list[ObjectInfo]:
        folder = pattern.rpartition("/")[0]
        return [found for found in super().glob(pattern) if found.path.startswith(f"{folder}/")]


@caught_by("test_more_objects_than_a_page_holds")
class ListsThePageOnly(RightStore):
    def list(self, folder: str) -> Iterator[ObjectInfo]:
        return iter([*super().list(folder)][:1000])


# Writing


@caught_by("test_an_output_appears_on_commit_and_not_before")
class ShowsWhatIsWritten(RightOutput):
    def write(self, data: BytesLike) -> None:
        super().write(data)
        self.store.place(self.path, Stored.of(self.data))


@caught_by("test_an_output_that_is_dropped_never_appears")
class CommitsWhatIsDropped(RightOutput):
    def __del__(self) -> None:
        if not self.done:
            self.placed(False)


@caught_by("test_an_output_appears_on_commit_and_not_before")
class AbortDeletes(RightOutput):
    def abort(self) -> None:
        super().abort()
        OBJECTS.pop(self.path, None)


@caught_by("test_an_abort_leaves_nothing")
class WritesAfterAbort(RightOutput):
    def check(self, action: str) -> None:
        self.done = False


@caught_by("test_an_abort_leaves_nothing")
class AbortsOnce(RightOutput):
    def abort(self) -> None:
        self.check("abort")
        super().abort()


@caught_by("test_an_output_appears_on_commit_and_not_before")
class LosesTheLastPart(RightOutput):
    def placed(self, if_absent: bool) -> ObjectInfo:
        self.data = self.data[: 8 << 20]
        return super().placed(if_absent)


@caught_by("test_the_order_of_many_writes")
class SortsPartsAsText(RightOutput):
    def begin(self) -> None:
        self.parts: dict[str, bytes] = {}

    def write(self, data: BytesLike) -> None:
        super().write(data)
        self.parts[f"{len(self.parts)}"] = bytes(data)

    def placed(self, if_absent: bool) -> ObjectInfo:
        self.data = bytearray(b"".join(part for _, part in sorted(self.parts.items())))
        return super().placed(if_absent)


@caught_by("test_an_output_appears_on_commit_and_not_before")
class CommitTellsAnotherVersion(RightOutput):
    def placed(self, if_absent: bool) -> ObjectInfo:
        return replace(super().placed(if_absent), etag="v0")


@caught_by("test_if_absent_finds_the_path_taken")
class OutputIgnoresIfAbsent(RightOutput):
    def placed(self, if_absent: bool) -> ObjectInfo:
        return super().placed(False)


@caught_by("test_if_absent_finds_the_path_taken")
class LargeOutputIgnoresIfAbsent(RightOutput):
    def placed(self, if_absent: bool) -> ObjectInfo:
        return super().placed(if_absent and len(self.data) < 8 << 20)


@caught_by("test_an_output_replaces_only_what_was_read")
class OutputIgnoresIfMatch(RightStore):
    def open_output(self, path: str, **_: Any) -> RightOutput:
        return RightOutput(self, path, None)


@caught_by("test_an_output_replaces_only_what_was_read")
class LargeOutputIgnoresIfMatch(RightOutput):
    def placed(self, if_absent: bool) -> ObjectInfo:
        if len(self.data) > 8 << 20:
            self.if_match = None
        return super().placed(if_absent)


@caught_by("test_a_wrong_crc_is_never_taken_for_the_stores_own")
class BelievesAnyCrc(RightOutput):
    def commit(self, *, if_absent: bool = False, crc32c: int | None = None) -> ObjectInfo:
        return replace(super().commit(if_absent=if_absent), crc32c=crc32c)


@caught_by("test_one_of_16_small_outputs_wins")
class OutputsRace(RightOutput):
    def placed(self, if_absent: bool) -> ObjectInfo:
        if self.store.taken(self.path, if_absent, self.if_match):
            raise FileExistsError(errno.EEXIST, "taken", self.store.url(self.path))
        let_another_look(self.store.url(self.path))
        return self.store.put(self.path, self.data)


class PutsRace(RightStore):
    """Looks, and then writes."""

    def put(
        self, path: str, data: BytesLike, *, if_absent: bool = False, if_match: str | None = None
    ) -> ObjectInfo:
        if self.taken(path, if_absent, if_match):
            raise FileExistsError(errno.EEXIST, "taken", self.url(path))
        if if_absent or if_match:
            let_another_look(self.url(path))
        return super().put(path, data)


@caught_by("test_one_of_16_puts_wins")
class NewObjectsRace(PutsRace):
    pass


@caught_by("test_one_of_16_replacements_wins")
class ReplacementsRace(PutsRace):
    pass


@caught_by("test_a_put_replaces_only_what_was_read")
class PutIgnoresConditions(RightStore):
    def taken(self, path: str, if_absent: bool, if_match: str | None) -> bool:
        return False


@caught_by("test_a_put_replaces_only_what_was_read")
class PutMatchesWhatIsGone(RightStore):
    def taken(self, path: str, if_absent: bool, if_match: str | None) -> bool:
        there = self.key(path) in OBJECTS
        return super().taken(path, if_absent, if_match if there else None)


@caught_by("test_buffers_of_any_kind")
class PutKeepsTheBuffer(RightStore):
    def place(self, path: str, stored: Stored) -> None:
        OBJECTS[path] = stored

    def put(
        self, path: str, data: BytesLike, *, if_absent: bool = False, if_match: str | None = None
    ) -> ObjectInfo:
        super().put(path, data, if_absent=if_absent, if_match=if_match)
        OBJECTS[path] = replace(OBJECTS[path], data=memoryview(data))  # type: ignore[arg-type]
        return self.info(path)


class PutsBySteps(RightStore):
    def steps(self, size: int) -> Iterable[int]:
        raise NotImplementedError

    def put(
        self, path: str, data: BytesLike, *, if_absent: bool = False, if_match: str | None = None
    ) -> ObjectInfo:
        whole = bytes(data)
        for stop in self.steps(len(whole)):
            super().put(path, whole[:stop])
            time.sleep(PAUSE)
        return super().put(path, whole)


@caught_by("test_a_put_appears_whole")
class PutAppearsInPieces(PutsBySteps):
    def steps(self, size: int) -> Iterable[int]:
        return range(1, size, 1 << 16)


@caught_by("test_a_put_appears_whole")
class PutBeginsWithNothing(PutsBySteps):
    def steps(self, size: int) -> Iterable[int]:
        return [0]


@caught_by("test_a_put_appears_whole")
class PutDeletesFirst(RightStore):
    def put(
        self, path: str, data: BytesLike, *, if_absent: bool = False, if_match: str | None = None
    ) -> ObjectInfo:
        if not if_absent and if_match is None:
            self.delete([path])
            time.sleep(PAUSE)
        return super().put(path, data, if_absent=if_absent, if_match=if_match)


# Copies


@caught_by("test_a_copy_appears_whole")
class CopyAppearsInHalves(RightStore):
    def copy(self, source: str, target: str) -> ObjectInfo:
        data = self.found(source).data
        if self.taken(target, True, None):
            raise FileExistsError(errno.EEXIST, "taken", self.url(target))
        self.put(target, data[: len(data) // 2])
        time.sleep(PAUSE)
        return self.put(target, data)


@caught_by("test_one_of_16_copies_wins")
class CopiesRace(RightStore):
    def copy(self, source: str, target: str) -> ObjectInfo:
        if self.taken(target, True, None):
            raise FileExistsError(errno.EEXIST, "taken", self.url(target))
        let_another_look(self.url(target))
        return self.put(target, self.found(source).data)


@caught_by("test_a_copy_finds_its_target_taken")
class CopyReplaces(RightStore):
    def copy(self, source: str, target: str) -> ObjectInfo:
        return self.put(target, self.found(source).data)


@caught_by("test_a_copy_finds_its_target_taken")
class CopyOfNothingIsEmpty(RightStore):
    def copy(self, source: str, target: str) -> ObjectInfo:
        data = OBJECTS[source].data if source in OBJECTS else b""
        return self.put(target, data, if_absent=True)


@caught_by("test_a_copy_is_a_new_object_of_the_same_bytes")
class CopyIsALink(RightStore):
    def copy(self, source: str, target: str) -> ObjectInfo:
        OBJECTS[target] = OBJECTS[source]
        self.__dict__["links"] = {source: target}
        return self.info(target)

    def delete(self, paths: Iterable[str]) -> None:
        links = self.__dict__.get("links", {})
        super().delete([each for path in paths for each in (path, links.get(path, path))])


@caught_by("test_a_copy_is_a_new_object_of_the_same_bytes")
class CopyTellsTheSource(RightStore):
    def copy(self, source: str, target: str) -> ObjectInfo:
        super().copy(source, target)
        return replace(self.info(source), path=target)


# Deleting


@caught_by("test_any_name_goes_there_and_back")
class DeletesNothing(RightStore):
    def delete(self, paths: Iterable[str]) -> None:
        pass


@caught_by("test_deleting_what_is_not_there")
class DeleteOfNothingFails(RightStore):
    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            del OBJECTS[path]


@caught_by("test_deleting_what_is_not_there")
class DeleteStopsAtNothing(RightStore):
    def delete(self, paths: Iterable[str]) -> None:
        with contextlib.suppress(KeyError):
            for path in paths:
                del OBJECTS[path]


@caught_by("test_a_delete_takes_no_more_than_its_name")
class DeletesWholeFolders(RightStore):
    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            super().delete([path, *self.below(path)])


@caught_by("test_a_delete_takes_no_more_than_its_name")
class DeletesWhatBeginsAlike(RightStore):
    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            super().delete([name for name in OBJECTS if name.startswith(path)])


@caught_by("test_a_version_is_deleted_and_no_other")
class DeletesNoVersion(RightStore):
    def delete_version(self, path: str, etag: str | None) -> None:
        pass


@caught_by("test_a_version_is_deleted_and_no_other")
class DeletesAnyVersion(RightStore):
    def delete_version(self, path: str, etag: str | None) -> None:
        self.delete([path])


@caught_by("test_a_version_is_deleted_and_no_other")
class DeletesKnownVersionsOnly(RightStore):
    def delete_version(self, path: str, etag: str | None) -> None:
        if etag is not None:
            super().delete_version(path, etag)


@caught_by("test_a_version_is_deleted_and_no_other")
class DeletingAnotherVersionFails(RightStore):
    def delete_version(self, path: str, etag: str | None) -> None:
        with LOCK:
            if etag is not None and self.taken(path, False, etag):
                raise FileExistsError(errno.EEXIST, "another version", self.url(path))
            super().delete_version(path, etag)


# Uploads, crashes, processes


@caught_by("test_an_abort_leaves_nothing")
class AbortLeavesAnUpload(RightOutput):
    def begin(self) -> None:
        UPLOADS[self.token] = self

    def placed(self, if_absent: bool) -> ObjectInfo:
        info = super().placed(if_absent)
        UPLOADS.pop(self.token)
        return info


@caught_by("test_uploads_elsewhere_are_not_listed")
class ListsAllUploads(RightStore):
    def open_output(self, path: str, **_: Any) -> RightOutput:
        return AbortLeavesAnUpload(self, path, None)

    def pending_uploads(self, folder: str, *, deep: bool = True) -> builtins.list[PendingUpload]:
        uploads = list(UPLOADS.items())
        return [PendingUpload(output.path, token) for token, output in uploads]


@caught_by("test_a_pickled_store_reaches_the_same_place")
class PicklesItsName(RightStore):
    def __reduce__(self) -> tuple[object, ...]:
        return RightStore, ("elsewhere", {"root": "elsewhere"}, Retry())

    def key(self, path: str) -> str:
        return f"{self._scheme}/{path}"

    def below(self, folder: str) -> list[str]:
        return []


@caught_by("test_a_child_process_makes_its_own_connections")
class KeepsItsParentsThreads(RightStore):
    def read(
        self, path: str, start: int, stop: int, *, etag: str | Version | None = None
    ) -> Future[BytesLike]:
        if os.getpid() != self.__dict__.setdefault("pid", os.getpid()):
            raise RuntimeError("the threads are the parent's")
        return super().read(path, start, stop, etag=etag)


class LocalFiles(LocalStore):
    """Files, which other processes see too."""

    def __init__(self, scheme: str, options: Any, retry: Retry) -> None:
        super().__init__(scheme, options, retry)
        self._arguments = scheme, options, retry

    def __reduce__(self) -> tuple[object, ...]:
        return shared_store, (type(self), *self._arguments)

    def url(self, path: str) -> str:
        return f"{self._arguments[0]}://{path}"

    address = url


@caught_by("test_leftovers_of_a_killed_writer_are_found_and_removed")
class AbortsNoUploads(LocalFiles):
    def abort_uploads(self, uploads: Iterable[PendingUpload]) -> None:
        pass


@caught_by("test_leftovers_of_a_killed_writer_are_found_and_removed")
class AbortsUploadsOnce(LocalFiles):
    def abort_uploads(self, uploads: Iterable[PendingUpload]) -> None:
        for upload in uploads:
            os.unlink(upload.token)


@caught_by("test_leftovers_of_a_killed_writer_are_found_and_removed")
class ListsUploadsByTheirToken(LocalFiles):
    def pending_uploads(self, folder: str, *, deep: bool = True) -> builtins.list[PendingUpload]:
        found = super().pending_uploads(folder, deep=deep)
        return [replace(upload, path=upload.token) for upload in found]


@caught_by("test_leftovers_of_a_killed_writer_are_found_and_removed")
class ListsWhatIsBeingWritten(LocalFiles):
    def list(self, folder: str) -> Iterator[ObjectInfo]:
        for parent, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(parent, name)
                yield ObjectInfo(path, os.path.getsize(path))


__all__ = ["WRONG", "SiteByHand"]
