"""`Pages`: the list of a dataset's shards, of which only what is asked for is read.

The root of the dataset says where the pages of the list lie, and the totals of each. So a shard, a
record or a block is found by at most two ranged requests: its page, and its shard's block table.
The index of a small dataset is read whole instead, by one request.
"""

from __future__ import annotations

import operator
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, islice
from typing import Any, NamedTuple, Protocol, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer as BytesLike

from tfio_store.dataset.block_tables import BlockTable, ShardInfo, decode_table
from tfio_store.dataset.checks import check_name, check_room
from tfio_store.dataset.container import check_header, section_crc
from tfio_store.dataset.shard_page import (
    PAGE_SHARDS,
    IndexObject,
    Listed,
    PageRef,
    PageTotals,
    ShardPage,
    decode_page,
    encode_page,
    only_block,
)
from tfio_store.errors import ManifestError
from tfio_store.records.arrays import Int64Array
from tfio_store.records.framing import crc32c
from tfio_store.storage.cache.memory import MemoryCache
from tfio_store.storage.threads import PerProcess

_PAGES_KEPT = 4 << 20
_TABLES_KEPT = 6 << 20
_STARTS_KEPT = 4 << 20
_ITEMS_KEPT = 2 << 20
_ITEM_BYTES = 600
_AHEAD = 8
"""Requests for pages that are in flight for who goes through all of them."""

_PAGES_TOGETHER = 256 << 10
"""So many bytes of neighbouring pages come by one request."""

_LOOKS_AGAIN = 64
"""How often the manifest is read again if a page has gone."""

_TABLES_AHEAD = 32
_TABLES_TOGETHER = 16 << 20
"""Bytes of tables in flight from which on no other is begun: a list may say that each is huge."""
_TABLES_BEGUN = 4 << 20

WHOLE_BYTES = 4 << 20
"""The index of a dataset of few shards is read whole if it has no more."""


def is_small(shards: int, nbytes: int) -> bool:
    """Whether an index of so many shards and bytes is read whole."""
    return shards <= PAGE_SHARDS and nbytes <= WHOLE_BYTES


class Ranges(Protocol):
    """The folder of the dataset: bytes of objects by name. It pickles."""

    def begin_range(self, name: str, start: int, stop: int) -> Future[BytesLike]:
        """Begin to read bytes ``start:stop`` of an object that is never written again."""

    def url(self, name: str) -> str:
        """The object's name in errors."""

    def pages_now(self) -> tuple[PageRef, ...]:
        """The pages that the manifest names by now. None if it is gone or damaged."""


class _Item(NamedTuple):
    """The facts about one shard. They are kept longer than its page."""

    listed: Listed
    first: dict[str, int]
    """How many "records" and "blocks" stand before it."""


class Pages(Sequence[ShardInfo]):
    """The shards of a manifest with their block tables, listed in pages. Shards, records and blocks
    are counted over all pages.

    An item takes up to two requests, its page and its table, and none if the index is at hand.
    `listed` and `rows` give shards without their tables. It pickles as the places of the pages.

    ``raw``: whether the shards are not compressed. ``streams``: how many of them have no block
    table, as others compressed them. ``folder``: None if only totals are wanted. The
    pages and tables used last are kept, up to 16 MiB in each process, or one table that is larger,
    and the whole index if it is `small`. A shard is checked when it is read: `ManifestError` names
    the object.
    """

    def __init__(
        self, refs: Sequence[PageRef], folder: Ranges | None, raw: bool, streams: int = 0
    ) -> None:
        self.refs = tuple(refs)
        self.folder = folder
        self.raw = raw
        self.streams = streams
        self._pages = MemoryCache(_PAGES_KEPT)
        self._tables = MemoryCache(_TABLES_KEPT, newest=True)  # a table may be larger than that
        self._items, self._starts = MemoryCache(_ITEMS_KEPT), MemoryCache(_STARTS_KEPT)
        self._begun: PerProcess[dict[int, tuple[Future[BytesLike], int]]] = PerProcess(dict)
        self._whole: dict[str, npt.NDArray[np.uint8]] = {}
        """The objects of a small index, by their names."""
        self._moved: dict[int, PageRef] = {}
        """Where pages lie by now that appends have written again."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _with_whole, (self.refs, self.folder, self.raw, self.streams, self._whole)

    @cached_property
    def _ends(self) -> dict[str, list[int]]:
        """Behind each page, how many shards, records, blocks and bytes there are up to its end."""
        return {
            column: list(accumulate(getattr(ref.totals, column) for ref in self.refs))
            for column in PageTotals._fields
        }

    @cached_property
    def totals(self) -> PageTotals:
        """How many shards, records, bytes and blocks there are in all."""
        pages = len(self.refs)
        return PageTotals(*(self.before(column, pages) for column in PageTotals._fields))

    @cached_property
    def objects(self) -> tuple[IndexObject, ...]:
        """The objects that hold pages or tables."""
        return tuple(dict.fromkeys(one for ref in self.refs for one in (ref.index, ref.tables)))

    @cached_property
    def small(self) -> bool:
        """Whether the index is read whole."""
        return is_small(self.totals.shards, sum(one.nbytes for one in self.objects))

    def hold(self, index: IndexObject, data: BytesLike) -> ManifestError | None:
        """Take an object of a small index. Returns why these bytes are not what the root means."""
        view = memoryview(data).cast("B")
        try:
            check_header(view)
            if len(view) != index.nbytes:
                raise ValueError(f"it has {len(view)} bytes, and the manifest says {index.nbytes}")
            for number, ref in enumerate(self.refs):
                if ref.index == index:
                    page = self._decoded(ref, view[ref.start : ref.start + ref.nbytes])
                    self._pages.put(number, page, ref.nbytes)
        except ValueError as error:
            return ManifestError(f"{self._url(index.name)}: not the index of this dataset: {error}")
        except ManifestError as error:
            return error
        self._whole[index.name] = np.frombuffer(bytes(data), np.uint8)
        return None

    @cached_property
    def digest(self) -> int:
        """A CRC of the CRCs of all pages: another list has another one."""
        return crc32c(np.array([ref.crc32c for ref in self.refs], "<u4").tobytes())

    def __eq__(self, other: object) -> bool:
        return self.refs == other.refs if isinstance(other, Pages) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Pages: {self.totals.records} records in {len(self)} shards>"

    # Shards with their block tables

    def __len__(self) -> int:
        return self.totals.shards

    @overload
    def __getitem__(self, index: int) -> ShardInfo: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ShardInfo, ...]: ...
    def __getitem__(self, index: Any) -> ShardInfo | tuple[ShardInfo, ...]:
        if isinstance(index, slice):
            return tuple(self.some(range(*index.indices(len(self)))))
        return next(self.some([range(len(self))[operator.index(index)]]))

    def __iter__(self) -> Iterator[ShardInfo]:
        return self.some(range(len(self)))

    def some(self, shards: Sequence[int]) -> Iterator[ShardInfo]:
        """These shards with their block tables, as far as they have any."""
        tables = self.tables(shard for shard in shards if self.listed(shard).nbytes)
        for shard in shards:
            one = self.listed(shard)
            yield replace(one.shard, blocks=next(tables)) if one.nbytes else one.shard

    # Rows of the list

    def between(self, first: int, stop: int) -> tuple[Pages, int]:
        """The pages that list these shards, one at least, and the number of the first of them."""
        numbers = self._pages_of(first, stop)
        refs = self.refs[numbers.start : numbers.stop]
        return _with_whole(refs, self.folder, self.raw, 0, self._whole), numbers.start

    def listed(self, shard: int) -> Listed:
        """The row of one shard in the list, with the place of its table."""
        return self._item(shard).listed

    def _item(self, shard: int) -> _Item:
        kept: _Item | None = self._items.get(shard)
        if kept is not None:
            return kept
        number = self.page_of(shard)
        page = self._page(number)
        if not self.small:
            return self._keep_item(shard, number, page)
        columns = ("records", "blocks")
        counts = [self._page_starts(column, number, page).tolist() for column in columns]
        rows = zip(page, *counts, strict=True)  # all of it is asked for soon
        for at, (listed, records, blocks) in enumerate(rows, self.before("shards", number)):
            item = _Item(self._checked(number, listed), {"records": records, "blocks": blocks})
            self._items.put(at, item, _ITEM_BYTES)
            kept = item if at == shard else kept
        assert kept is not None
        return kept

    def _keep_item(self, shard: int, number: int, page: ShardPage) -> _Item:
        row = shard - self.before("shards", number)
        first = {
            column: int(self._page_starts(column, number, page)[row])
            for column in ("records", "blocks")
        }
        item = _Item(self._checked(number, page[row]), first)
        self._items.put(shard, item, _ITEM_BYTES)
        return item

    def rows_of(self, page: int) -> Iterator[Listed]:
        """The rows of the shards of one page."""
        first = self.before("shards", page)
        return self.rows(first, first + self.refs[page].totals.shards)

    def rows(self, first: int = 0, stop: int | None = None) -> Iterator[Listed]:
        """The rows of these shards. Pages are fetched ahead."""
        stop = len(self) if stop is None else stop
        numbers = self._pages_of(first, stop)
        for number, page in zip(numbers, self._read_pages(numbers), strict=True):
            before = self.before("shards", number)
            for listed in islice(page, max(first - before, 0), stop - before):
                yield self._checked(number, listed)

    def numbers_of(self, names: Iterable[str]) -> list[int]:
        """The numbers of the shards with these names, as far as there are any. All of the list is
        searched only for names that do not stand where the number in them says."""
        wanted = set(names)
        found = {name: number for name in wanted if (number := self._place_of(name)) is not None}
        if len(found) < len(wanted):
            every = enumerate(one.shard.name for one in self.rows())
            found = {name: number for number, name in every if name in wanted}
        return sorted(found.values())

    def _place_of(self, name: str) -> int | None:
        """The number of a shard, if the first number in its name is that."""
        digits = re.search(r"-(\d{5,18})", name)
        number = len(self) if digits is None else int(digits[1])
        return number if number < len(self) and self.listed(number).shard.name == name else None

    def shards_of(self, column: str, numbers: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The shards that hold these "records" or "blocks", which are counted over all shards, and
        the number of each shard's first one. The pages are fetched at once."""
        ends = np.array([0, *self._ends[column]], np.int64)
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= ends[-1]):
            raise IndexError(f"there are {ends[-1]} {column}")
        pages = ends.searchsorted(numbers, side="right") - 1
        found = {page: self._starts.get((column, page)) for page in np.unique(pages).tolist()}
        unread = [page for page, starts in found.items() if starts is None]
        for number, page in zip(unread, self._read_pages(unread), strict=True):
            found[number] = starts = self._page_starts(column, number, page)
            inside = starts.searchsorted(numbers[pages == number], side="right") - 1
            for row in np.unique(inside).tolist():
                self._keep_item(self.before("shards", number) + row, number, page)
        shards, firsts = np.zeros_like(numbers), np.zeros_like(numbers)
        for number, starts in found.items():
            mine = pages == number
            rows = starts.searchsorted(numbers[mine], side="right") - 1
            shards[mine], firsts[mine] = self.before("shards", number) + rows, starts[rows]
        return shards, firsts

    def _page_starts(self, column: str, number: int, page: ShardPage) -> Int64Array:
        """int64 [n]: how many "records" or "blocks" stand before each shard of a page."""
        starts: Int64Array | None = self._starts.get((column, number))
        if starts is None:
            counts = page.columns[column]
            starts = self.before(column, number) + counts.cumsum() - counts
            self._starts.put((column, number), starts, starts.nbytes)
        return starts

    def first_of(self, column: str, shard: int) -> int:
        """How many "records" or "blocks" stand before a shard. It may read a page."""
        return self._item(shard).first[column]

    def nbytes_before(self, shard: int) -> int:
        """The bytes of all shards before this one. It may read a page."""
        number = self.page_of(shard)
        starts = self._page_starts("nbytes", number, self._page(number))
        return int(starts[shard - self.before("shards", number)])

    def columns(self, names: Sequence[str], first: int, stop: int) -> list[Int64Array]:
        """int64 [stop - first] each: "nbytes", "records" or "blocks" of each of these shards."""
        numbers = self._pages_of(first, stop)
        pages = [page.columns for page in self._read_pages(numbers)]
        begin, none = first - self.before("shards", numbers.start), [np.zeros(0, np.int64)]
        columns = [np.concatenate(none + [page[name] for page in pages]) for name in names]
        return [column[begin : begin + stop - first] for column in columns]

    def _pages_of(self, first: int, stop: int) -> range:
        """The numbers of the pages that list these shards."""
        return range(self.page_of(first), self.page_of(stop - 1) + 1) if first < stop else range(0)

    def page_of(self, shard: int) -> int:
        """The number of the page that lists a shard."""
        page = bisect_right(self._ends["shards"], shard)
        if shard < 0 or page == len(self.refs):
            raise IndexError(f"{shard} is none of {self.totals.shards} shards")
        return page

    def before(self, column: str, page: int) -> int:
        """How many "shards", "records" or "blocks" stand before a page."""
        return self._ends[column][page - 1] if page else 0

    def _page(self, number: int) -> ShardPage:
        kept: ShardPage | None = self._pages.get(number)
        return next(self._read_pages([number])) if kept is None else kept

    def _read_pages(self, numbers: Sequence[int]) -> Iterator[ShardPage]:
        """These pages, in this order. Several are in flight."""
        ahead: deque[tuple[list[int], ShardPage | Future[BytesLike]]] = deque()
        waiting = self._begun_pages(numbers)
        while True:
            ahead.extend(islice(waiting, _AHEAD - len(ahead)))
            if not ahead:
                return
            run, begun = ahead.popleft()
            if isinstance(begun, ShardPage):
                yield begun
            else:
                yield from self._end_pages(run, begun)

    def _begun_pages(
        self, numbers: Sequence[int]
    ) -> Iterator[tuple[list[int], ShardPage | Future[BytesLike]]]:
        """Pages that are kept, and requests for the others. Neighbours come by one."""
        run: list[int] = []
        for number in numbers:
            kept: ShardPage | None = self._pages.get(number)
            if run and (kept is not None or not self._go_on(run, number)):
                yield run, self._begin_run(run)
                run = []
            if kept is None:
                run.append(number)
            else:
                yield [number], kept
        if run:
            yield run, self._begin_run(run)

    def _go_on(self, run: list[int], number: int) -> bool:
        """Whether one request brings a page together with those before it."""
        first, last, ref = self.refs[run[0]], self.refs[run[-1]], self.refs[number]
        stop = ref.start + ref.nbytes
        behind = (ref.index, ref.start) == (last.index, last.start + last.nbytes)
        return behind and stop - first.start <= _PAGES_TOGETHER

    def _begin_run(self, run: list[int]) -> Future[BytesLike]:
        first, last = self.refs[run[0]], self.refs[run[-1]]
        return self._begin(first.index, first.start, last.start + last.nbytes - first.start)

    def _end_pages(self, run: list[int], begun: Future[BytesLike]) -> Iterator[ShardPage]:
        first = self.refs[run[0]].start
        try:
            data, gone = memoryview(begun.result()), None
        except FileNotFoundError as error:
            data, gone = memoryview(b""), error
        for number in run:
            ref = self.refs[number]
            if gone is None:
                page = self._decoded(ref, data[ref.start - first : ref.start - first + ref.nbytes])
            else:
                page = self._page_of_longer(number, gone)
            self._pages.put(number, page, ref.nbytes)
            yield page

    def _page_of_longer(self, number: int, gone: FileNotFoundError) -> ShardPage:
        """A page that is no more, because appends put a longer one in its place: the first rows of
        that are this page, and its first tables those of this page. Raises ``gone`` if they are
        not: the dataset is another one."""
        ref, seen = self.refs[number], self._ref(number)
        for _ in range(_LOOKS_AGAIN):
            pages = () if self.folder is None else self.folder.pages_now()
            if number >= len(pages) or pages[number] == seen:
                raise gone
            seen = pages[number]
            try:
                begun = self._begin(seen.index, seen.start, seen.nbytes)
                page = self._decoded(seen, begun.result())
            except FileNotFoundError:
                continue  # and that one has been replaced meanwhile
            rows = range(min(len(page), ref.totals.shards))
            first = encode_page([page[row] for row in rows])
            if section_crc(first) != ref.crc32c or len(first) != ref.nbytes:
                raise gone
            self._moved[number] = seen
            return self._decoded(ref, first)
        raise gone

    def _ref(self, number: int) -> PageRef:
        """Where a page lies by now."""
        return self._moved.get(number, self.refs[number])

    def _decoded(self, ref: PageRef, data: BytesLike) -> ShardPage:
        try:
            page = decode_page(data)
            if section_crc(data) != ref.crc32c or page.totals != ref.totals:
                raise ValueError("it is not the page that the manifest means")
        except ValueError as error:
            where = f"{self._url(ref.index.name)} at byte {ref.start}"
            raise ManifestError(f"{where}: not a page of this dataset's shards: {error}") from error
        return page

    def _checked(self, page: int, listed: Listed) -> Listed:
        try:
            check_name(listed.shard.name)
            check_room(listed.shard, raw=self.raw)
        except ValueError as error:
            url = self._url(self.refs[page].index.name)
            raise ManifestError(f"{url}: not a page that can be read: {error}") from error
        return listed

    # Block tables

    def table(self, shard: int, *, sums: bool = True) -> BlockTable:
        """Where the blocks of one shard lie. See `tables`."""
        kept: BlockTable | None = self._tables.get(shard)
        return next(self.tables([shard], sums=sums)) if kept is None else kept

    def tables(self, shards: Iterable[int], *, sums: bool = True) -> Iterator[BlockTable]:
        """The block tables of these shards, in this order. Many are fetched at once.

        ``sums``: False if nobody misses those of a raw shard of one block. Its list tells the rest,
        and its own CRC32C, so nothing is fetched.
        """
        if self.small:
            yield from map(self._table_at_hand, shards)
            return
        ahead: deque[tuple[Listed, int, BlockTable | Future[BytesLike]]] = deque()
        numbers = iter(shards)
        flying = 0
        while True:
            while (
                len(ahead) < _TABLES_AHEAD
                and flying < _TABLES_TOGETHER
                and (shard := next(numbers, None)) is not None
            ):
                listed = self.listed(shard)
                known = self._known_table(shard, listed, sums=sums)
                begun = self._begin_table(shard, listed) if known is None else known
                flying += listed.nbytes if isinstance(begun, Future) else 0
                ahead.append((listed, shard, begun))
            if not ahead:
                return
            listed, shard, begun = ahead.popleft()
            if isinstance(begun, Future):
                flying -= listed.nbytes
                begun = self._end_table(listed, shard, begun)
            yield begun

    def _known_table(self, shard: int, listed: Listed, *, sums: bool) -> BlockTable | None:
        """The table of a shard, if nothing has to be fetched for it."""
        kept: BlockTable | None = self._tables.get(shard)
        return only_block(listed, raw=self.raw) if kept is None and not sums else kept

    def _table_at_hand(self, shard: int) -> BlockTable:
        """The table of a shard of a small index."""
        kept: BlockTable | None = self._tables.get(shard)
        if kept is not None:
            return kept
        listed, page = self.listed(shard), self.page_of(shard)
        try:
            whole = self._object(self._ref(page).tables)
        except FileNotFoundError as gone:
            self._page_of_longer(page, gone)
            whole = self._object(self._ref(page).tables)
        start = self._ref(page).tables_start + listed.start
        return self._decoded_table(shard, listed, whole[start : start + listed.nbytes])

    def begin_tables(self, shards: Iterable[int]) -> None:
        """Begin to fetch the block tables of these shards, which are asked for soon: as many as fit
        into a few MiB."""
        begun, wanted = self._begun.here, list(shards)
        room = _TABLES_BEGUN
        for shard in wanted:
            listed = self.listed(shard)
            if self._known_table(shard, listed, sums=False) is not None:
                continue
            if room < listed.nbytes and room < _TABLES_BEGUN:
                break
            room -= listed.nbytes
            if shard not in begun:
                begun[shard] = self._begin_table(shard, listed), listed.nbytes
        self._forget_begun(set(wanted))

    def _forget_begun(self, wanted: set[int]) -> None:
        """Drop what readers have begun to fetch and never asked for, once it takes too much."""
        begun = self._begun.here
        nbytes = sum(size for _, size in list(begun.values()))
        for shard in list(begun):
            if nbytes <= _TABLES_BEGUN:
                return
            if shard not in wanted:
                table, size = begun.pop(shard, (None, 0))
                nbytes -= size
                if table is not None:
                    table.cancel()

    def _begin_table(self, shard: int, listed: Listed) -> Future[BytesLike]:
        begun, _ = self._begun.here.pop(shard, (None, 0))
        if begun is not None:
            return begun
        ref = self._ref(self.page_of(shard))
        return self._begin(ref.tables, ref.tables_start + listed.start, listed.nbytes)

    def _end_table(self, listed: Listed, shard: int, begun: Future[BytesLike]) -> BlockTable:
        try:
            data = begun.result()
        except FileNotFoundError as gone:
            self._page_of_longer(self.page_of(shard), gone)
            data = self._begin_table(shard, listed).result()
        return self._decoded_table(shard, listed, bytes(data))

    def _decoded_table(self, shard: int, listed: Listed, data: BytesLike) -> BlockTable:
        try:
            table = decode_table(data, listed.shard)
            if len(table) != listed.blocks:
                raise ValueError(f"it has {len(table)} blocks, and the list says {listed.blocks}")
        except ValueError as error:
            ref = self._ref(self.page_of(shard))
            where = f"{self._url(ref.tables.name)} at byte {ref.tables_start + listed.start}"
            raise ManifestError(f"{where}: not a table of this dataset: {error}") from error
        self._tables.put(shard, table, listed.nbytes)
        return table

    def stored_tables(self, page: int) -> memoryview:
        """The tables of a page's shards, one behind the other, as they are stored."""
        ref = self.refs[page]
        return memoryview(
            self._begin(ref.tables, ref.tables_start, ref.totals.table_nbytes).result()
        )

    def _begin(self, index: IndexObject, start: int, nbytes: int) -> Future[BytesLike]:
        """Begin to read some bytes of an object, or of a small index all of it."""
        if self.folder is None:
            raise ValueError(
                f"the list of shards is in {index.name}, apart from the manifest: open the dataset "
                "by its URL"
            )
        if not self.small:
            return self.folder.begin_range(index.name, start, start + nbytes)
        done: Future[BytesLike] = Future()
        try:
            done.set_result(self._object(index)[start : start + nbytes])
        except (OSError, ManifestError) as error:
            done.set_exception(error)
        return done

    def _object(self, index: IndexObject) -> memoryview:
        """An object of a small index, all of it."""
        assert self.folder is not None
        if index.name not in self._whole:
            wrong = self.hold(index, self.folder.begin_range(index.name, 0, index.nbytes).result())
            if wrong is not None:
                raise wrong
        return self._whole[index.name].data

    def _url(self, name: str) -> str:
        return name if self.folder is None else self.folder.url(name)


def _with_whole(
    refs: Sequence[PageRef],
    folder: Ranges | None,
    raw: bool,
    streams: int,
    whole: dict[str, npt.NDArray[np.uint8]],
) -> Pages:
    """Pages in another process, with the objects that were at hand."""
    pages = Pages(refs, folder, raw, streams)
    pages._whole.update(whole)
    return pages
