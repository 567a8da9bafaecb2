"""`Episodes`: the episodes of an RLDS dataset, and all their steps, by number."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from tfio_store.dataset.checks import check_positive
from tfio_store.dataset.folder import Folder
from tfio_store.dataset.header_walk import is_remote
from tfio_store.dataset.model import MEMORY_BUDGET, Dataset, DatasetPart, Limits
from tfio_store.dataset.source import OneSource, open_dataset
from tfio_store.dataset.tfds import DESCRIPTION_BYTES, tfds_split
from tfio_store.episodes.decoding import (
    Episode,
    Images,
    Place,
    decode_episode,
    frames_at,
    schema_of,
    values_at,
    whole,
)
from tfio_store.episodes.features import STEPS, Leaf, Tree, nested
from tfio_store.episodes.sparse import Ranges, record_of_step
from tfio_store.episodes.step_index import load_index
from tfio_store.episodes.windows import Pad, Windows
from tfio_store.errors import DataLossError, SchemaError
from tfio_store.example.kinds import objects_of
from tfio_store.read.record_source import RecordSource, is_number, record_numbers
from tfio_store.records.arrays import Int64Array
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, FRAME_OVERHEAD, HEADER_BYTES
from tfio_store.records.texts import warn
from tfio_store.storage import Storage
from tfio_store.storage.cache.memory import MemoryCache
from tfio_store.storage.redaction import redacted
from tfio_store.storage.storage import given_storage

_AT_ONCE = 32
_BYTES_AT_ONCE = 32 << 20
"""A loop over all episodes fetches so many, or so many bytes, in one round."""

_BLOCKS_SHARE = 4
"""One of so many parts of the cache holds decompressed blocks, where episodes cannot be read by
themselves."""

_NEAR, _FAR = 192, 64 << 10
"""How many bytes a walk through a record reads at once, of a local file and of a distant one."""


class Episodes(Sequence[dict[str, Any]]):
    """The episodes of a dataset of RLDS, as TensorFlow Datasets lays it out. Needs no TensorFlow.

    ``episodes[i]`` is a nested dict, as the features are: ``["steps"]["action"]`` is an array of
    the actions of all steps, ``["steps"]["observation"]["image"]`` one of their frames. Text is
    str, and a sequence in each step an array of objects. ``[i:j]`` and ``[[i, j]]`` give lists.
    ``steps`` are the steps of all episodes, and `windows` are short runs of steps, as policies are
    trained on.

    The number of steps of each episode stands in a small index beside the dataset,
    ``_train.steps``. If there is none of these versions of the files, opening makes it by reading a
    few bytes of each record (of compressed files, all). ``save_index=True`` saves it: beside the
    dataset, or where that cannot be written to, in ``~/.cache/tfio_store``.

    Decoded episodes are kept in memory up to ``cache_bytes``; their images stay encoded there. It
    is safe to use from several threads, and pickles as names and numbers.

    Args:
        source (str | PathLike | Dataset | Slice): The folder of a version of a dataset, or a split
            in it: ``gs://bucket/bridge/1.0.0/train``. It must hold ``features.json``.
        keys (list[str] | None): The features to decode, such as "observation/image" of the steps,
            "action", or "observation" for all in it. Default None: all.
        images (str | dict | None): What comes of encoded images. None: their pixels [h, w, c] of
            the features' dtype; those of JPEG are the ones that TensorFlow gives. "bytes": as they
            are. A dict of feature to (height, width) or to a dict of options of
            `tfio_store.image.decode` resizes some of them; "bytes" in place of these leaves one
            encoded. Pixels need
            ``tfio_store[images]``. Default None.
        verify (bool): Check the CRC of each record. With False, ``steps[n]`` reads of a record that
            is not in memory only the bytes of that step, which no CRC covers by themselves.
            Default True.
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        cache_bytes (int): Bytes of decoded episodes to keep. Default 256 MiB.
        memory_budget (int): Bytes in flight while episodes are fetched. Default 256 MiB.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.
        save_index (bool): Save the index of steps if it has to be made, so that the next opening is
            fast. With False, opening writes nothing. Default False.

    Raises:
        OSError: The storage fails: FileNotFoundError, PermissionError and others, with the URL.
        ManifestError: ``features.json`` or another description cannot be read, or contradicts the
            files.
        ValueError: There is no ``features.json``, or it has no steps; the folder has several
            splits; or an argument is not as described.
        CorruptRecordError: A record's header is damaged. It gives path and offset.

    Example:
        >>> features = {"steps": {"action": ("float32", (2,)), "is_first": "bool"}}
        >>> steps = [{"action": [t, 0.5], "is_first": t == 0} for t in range(3)]
        >>> with tfs.EpisodeWriter("arm/1.0.0", features) as writer:
        ...     writer.write({"steps": steps})
        ...     writer.write({"steps": steps[:2]})
        >>> episodes = tfs.Episodes("arm/1.0.0/train")
        >>> len(episodes), len(episodes.steps), episodes.lengths
        (2, 5, array([3, 2]))
        >>> episodes[1]["steps"]["action"].shape
        (2, 2)
        >>> episodes.steps[2]["action"]
        array([2. , 0.5], dtype=float32)
    """

    def __init__(
        self,
        source: OneSource,
        *,
        keys: Iterable[str] | None = None,
        images: str | Mapping[str, Any] | None = None,
        verify: bool = True,
        storage_options: Mapping[str, Any] | None = None,
        storage: Storage | None = None,
        cache_bytes: int = 256 << 20,
        memory_budget: int = MEMORY_BUDGET,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
        save_index: bool = False,
    ) -> None:
        check_positive("cache_bytes", cache_bytes)
        check_positive("memory_budget", memory_budget)
        given = given_storage(storage_options, storage)
        named: Any = source
        while isinstance(named, DatasetPart):
            given, named = given or named._reached(), named._whole()
        if not isinstance(named, str | os.PathLike):
            kind = type(source).__name__
            raise TypeError(f"source= takes the folder of a dataset or of a split, not {kind}")
        self._path = redacted(os.fspath(named))
        folder, split, tree = _described(named, given, self._path)
        found = open_dataset(source, given, limits=Limits(memory_budget, max_record_bytes))
        whole_source = named is source or isinstance(source, Dataset)
        dataset, index = load_index(
            found, folder if whole_source else None, split, tree.steps, save=save_index
        )
        self._tree = tree.select(keys)
        if tree.unknown and keys is None:
            warn(
                f"{self._path}: left out, because their kind is not known: "
                + ", ".join(tree.unknown)
            )
        self._images = Images.of(images, self._tree.leaves)
        self._schema = schema_of(self._tree.leaves)
        self._lengths = np.concatenate([np.zeros(0, np.int64), *(each.steps for each in index)])
        self._bounds = np.append(0, np.cumsum(self._lengths))
        self._positioned = all(each.starts is not None for each in index)
        self._verify, self._cache_bytes = verify, cache_bytes
        of_blocks = 0 if self._positioned else cache_bytes // _BLOCKS_SHARE
        self._cache = MemoryCache(max(1, cache_bytes - of_blocks))
        self._records = RecordSource.of(
            dataset,
            verify=verify,
            cache_bytes=of_blocks,
            memory_budget=memory_budget,
            max_record_bytes=max_record_bytes,
        )
        if len(self._records) != len(self._lengths):
            raise ValueError(
                f"{self._path}: {len(self._records)} records, and {len(self._lengths)} in the index"
            )

    @property
    def lengths(self) -> Int64Array:
        """The number of steps of each episode (int64 array)."""
        return self._lengths

    @property
    def features(self) -> Tree:
        """The features that are decoded. An `EpisodeWriter` takes them."""
        return self._tree

    @property
    def steps(self) -> Steps:
        """The steps of all episodes, one behind another (Steps)."""
        return Steps(self)

    @property
    def bounds(self) -> Int64Array:
        """The number of each episode's first step, and that of all steps (int64 array [n + 1])."""
        return self._bounds

    def windows(
        self,
        length: int = 16,
        *,
        stride: int = 1,
        past: int = 0,
        pad: Pad = "repeat",
        keys: Iterable[str] | Mapping[str, tuple[int, int]] | None = None,
    ) -> Windows:
        """Cut the episodes into windows: chunks of actions with the observations before them.

        A window belongs to one step of one episode. It has the observations of the ``past`` steps
        before it and of the step itself, and of all other features the ``length`` steps from it on.
        See `Windows` for what it gives.

        Args:
            length (int): The steps of a chunk. Default 16.
            stride (int): Steps from one window to the next. Default 1.
            past (int): Observations before that of the window's own step. Default 0.
            pad (str): What stands where the episode has no step: "repeat" its first or last step,
                or "zero" zeros and empty texts. "drop": windows that reach out of their episode are
                left out. Default "repeat".
            keys (list[str] | dict | None): The features; features of the episode itself may be
                among them. In a dict each has its own steps (start, stop) beside the window's:
                ``{"observation/image": (-2, 1), "action": (0, 16)}``. Default None: all of the
                steps.

        Returns:
            Windows: A map-style source.

        Raises:
            ValueError: An argument is not as described.

        Example:
            >>> features = {"steps": {"action": ("float32", (2,)), "observation": {"x": "int64"}}}
            >>> steps = [{"action": [t, 0.5], "observation": {"x": t}} for t in range(3)]
            >>> with tfs.EpisodeWriter("arm/1.0.0", features) as writer:
            ...     writer.write({"steps": steps})
            >>> windows = tfs.Episodes("arm/1.0.0").windows(length=2, past=1)
            >>> len(windows), windows[2]["action"].tolist(), windows[2]["observation"]["x"]
            (3, [[2.0, 0.5], [2.0, 0.5]], array([1, 2]))
            >>> windows[2]["mask"]["action"], windows[[0, 1]]["action"].shape
            (array([ True, False]), (2, 2, 2))
        """
        return Windows(self, length=length, stride=stride, past=past, pad=pad, keys=keys)

    def __len__(self) -> int:
        return len(self._lengths)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.__getitems__(range(*index.indices(len(self))))
        if is_number(index):
            return self.__getitems__([index])[0]
        return self.__getitems__(index)

    def __getitems__(self, indices: Any) -> list[dict[str, Any]]:
        """The episodes of ``indices``, fetched in one round."""
        numbers = record_numbers(indices, len(self))
        found = self._load(numbers)
        return [whole(found[n], self._tree, self._images) for n in numbers.tolist()]

    _getitems = __getitems__
    """The method that Grain calls with a batch."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        group: list[int] = []
        nbytes, each = 0, self._dataset.nbytes // max(1, len(self))
        for number in range(len(self)):
            group.append(number)
            nbytes += each
            if len(group) == _AT_ONCE or nbytes >= _BYTES_AT_ONCE or number + 1 == len(self):
                yield from self.__getitems__(group)
                group, nbytes = [], 0

    @property
    def _dataset(self) -> Dataset:
        return self._records.dataset

    @cached_property
    def _episode_bytes(self) -> int:
        """About how many bytes an episode takes in memory, its images encoded: by one of them."""
        steps = int(self.bounds[-1])
        if not steps:
            return 1
        number = int(np.searchsorted(self.bounds, steps // 2, side="right")) - 1
        try:
            some = self._load(np.array([number]))[number]
        except (DataLossError, SchemaError):  # whoever reads it will hear of it
            return self._dataset.nbytes // len(self) + 1
        return int(some.nbytes * steps / (max(1, some.steps) * len(self))) + 1

    def _load(self, numbers: Int64Array) -> dict[int, Episode]:
        """The decoded records of these episodes, by number. Those that are not in memory are
        fetched in one round."""
        found: dict[int, Episode] = {}
        missing = []
        for number in np.unique(numbers).tolist():
            kept = self._cache.get(number)
            if kept is None:
                missing.append(number)
            else:
                found[number] = kept
        for number, record in zip(missing, self._fetched(missing), strict=True):
            steps = int(self._lengths[number])
            episode = decode_episode(
                record, self._tree, self._schema, Place(self._path, number), steps
            )
            self._cache.put(number, episode, episode.nbytes)
            found[number] = episode
        return found

    def _fetched(self, numbers: list[int]) -> list[bytes]:
        """The records of these numbers. An error of one names the episode."""
        if not numbers:
            return []
        try:
            return self._records._fetched(np.array(numbers, np.int64), whole_blocks=False)
        except DataLossError as error:
            if len(numbers) > 1:  # one of them: the others are as good as they were
                return [self._fetched([number])[0] for number in numbers]
            reason = f"episode {numbers[0]}: {error.reason}"
            raise type(error)(reason, path=error.path, offset=error.offset) from error

    def _gather(
        self, leaf: Leaf, picks: Sequence[tuple[Episode, Int64Array]], threads: int | None
    ) -> Any:
        """The values of a leaf at steps of several episodes, end to end. A frame that is wanted
        more than once is decoded once."""
        if leaf.kind == "image" and len(leaf.levels) == 1 and not self._images.stays_encoded(leaf):
            wanted = [(episode, row) for episode, rows in picks for row in rows.tolist()]
            return frames_at(wanted, leaf, self._images, threads)
        columns = [episode.columns[leaf.name] for episode, _ in picks]
        kinds = {_kind_of(column) for column in columns}
        if len(kinds) == 1 and None not in kinds:
            return _taken(columns, [rows for _, rows in picks])
        found = [values_at(episode, leaf, rows, self._images) for episode, rows in picks]
        if not found:
            return np.zeros((0, *(n or 0 for n in leaf.shape)), object)
        same = len({(each.dtype, each.shape[1:]) for each in found}) == 1
        return np.concatenate(found if same else [objects_of(each) for each in found])

    def _one_step(self, episode: int, step: int) -> dict[str, Any]:
        """One step of an episode, nested."""
        found, row = None, 0
        if not self._verify and self._positioned and self._cache.get(episode) is None:
            found = self._sparse(episode, step)
        if found is None:
            found, row = self._load(np.array([episode]))[episode], step
        rows = np.array([row], np.int64)
        values = {
            leaf.within: values_at(found, leaf, rows, self._images)[0] for leaf in self._tree.steps
        }
        return nested(values)

    def _sparse(self, number: int, step: int) -> Episode | None:
        """A step as an episode of one step, of which only its own bytes were read. None where the
        record has to be read whole."""
        places = self._records._locate(np.array([number], np.int64)).frames
        shard, start, stop = (int(a[0]) for a in (places.shards, places.starts, places.stops))
        store, path = self._dataset.open(shard)
        of = self._dataset.shard(shard)
        chunk = _FAR if is_remote(of.url) else _NEAR
        if stop - start <= chunk:
            return None
        ranges = Ranges(store, path, of.nbytes, of.version, chunk=chunk)
        first, last = start + HEADER_BYTES, stop - (FRAME_OVERHEAD - HEADER_BYTES)
        leaves = self._tree.steps
        record = record_of_step(ranges, first, last, leaves, step)
        if record is None:
            return None
        place = Place(self._path, number, step)
        tree = replace(self._tree, leaves=leaves)
        return decode_episode(record, tree, schema_of(leaves), place, 1)

    def __repr__(self) -> str:
        # Grain compares this when it restores a state: it does not say where the files lie.
        return f"<Episodes: {len(self)} of {int(self.bounds[-1])} steps, {self._records._digest}>"


class Steps(Sequence[dict[str, Any]]):
    """The steps of all episodes as a sequence: ``len``, ``[n]``, ``[i:j]`` and ``[[n, m]]``.

    One number gives a step as a nested dict. A list or a slice gives a batch: a nested dict of
    arrays [k, ...].

    Args:
        episodes (Episodes): Whose steps these are.

    Example:
        >>> features = {"steps": {"action": ("float32", (2,))}}
        >>> with tfs.EpisodeWriter("arm/1.0.0", features) as writer:
        ...     for start in (0, 2):
        ...         writer.write({"steps": [{"action": [start, t]} for t in range(2)]})
        >>> steps = tfs.Episodes("arm/1.0.0").steps
        >>> len(steps), steps[3]["action"], steps[[0, 2]]["action"].tolist()
        (4, array([2., 1.], dtype=float32), [[0.0, 0.0], [2.0, 0.0]])
        >>> steps.place(3)
        (1, 1)
    """

    def __init__(self, episodes: Episodes) -> None:
        self._episodes = episodes

    def __len__(self) -> int:
        return int(self._episodes.bounds[-1])

    def place(self, number: int) -> tuple[int, int]:
        """Where a step lies.

        Args:
            number (int): A step's number among all.

        Returns:
            tuple[int, int]: The episode's number, and the step's within it.

        Raises:
            IndexError: There is no such step.
        """
        (row,) = record_numbers([number], len(self)).tolist()
        bounds = self._episodes.bounds
        episode = int(np.searchsorted(bounds, row, side="right")) - 1
        return episode, row - int(bounds[episode])

    def __getitem__(self, index: Any) -> Any:
        if is_number(index):
            return self._episodes._one_step(*self.place(index))
        if isinstance(index, slice):
            index = range(*index.indices(len(self)))
        numbers = record_numbers(index, len(self))
        bounds = self._episodes.bounds
        of = np.searchsorted(bounds, numbers, side="right") - 1
        loaded = self._episodes._load(of)
        rows = numbers - bounds[of]
        picks = [(loaded[e], rows[i : i + 1]) for i, e in enumerate(of.tolist())]
        leaves = self._episodes.features.steps
        return nested({leaf.within: self._episodes._gather(leaf, picks, None) for leaf in leaves})


def _described(
    source: str | os.PathLike[str], storage: Storage | None, shown: str
) -> tuple[Folder, str, Tree]:
    """The folder of a dataset, the name of the split, and its features."""
    store, path = (storage or Storage()).open(source)
    path = path.rstrip("/")
    parent, _, last = path.rpartition("/")
    for where in (path, parent):
        folder = Folder(store, where)
        try:
            stored = folder.read("features.json", most=DESCRIPTION_BYTES) if where else None
        except NotADirectoryError:
            continue
        if stored is None:
            continue
        tree = Tree.from_json(stored[0], url=folder.url("features.json"))
        if not tree.steps:
            raise ValueError(
                f"{folder.url('features.json')}: has no sequence {STEPS!r}: its records are no "
                "episodes; tfio_store.RecordSource reads them"
            )
        split = last if where == parent else tfds_split(store, path) or "all"
        return folder, split, tree.with_names(dict(_class_names(folder, tree)))
    raise ValueError(
        f"{shown}: there is no features.json in it; name the folder of a version of a dataset that "
        "TensorFlow Datasets or tfio_store.EpisodeWriter wrote, or a split in it"
    )


def _class_names(folder: Folder, tree: Tree) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The names of the classes of each label, a line each, where there is a file of them."""
    for leaf in tree.leaves:
        stored = folder.read(leaf.names_file) if leaf.kind == "label" else None
        if stored is not None:
            names = stored[0].decode("utf-8", "replace").split("\n")
            yield leaf.name, tuple(name.strip() for name in names if name.strip())


def _kind_of(column: Any) -> tuple[Any, ...] | None:
    """The type and shape that arrays must share to be taken from at once; None for what is none."""
    return (column.dtype, column.shape[1:]) if isinstance(column, np.ndarray) else None


def _taken(columns: Sequence[Any], rows: Sequence[Int64Array]) -> Any:
    """Rows of several arrays of one kind, end to end."""
    total = sum(map(len, rows))
    found = np.empty((total, *columns[0].shape[1:]), columns[0].dtype)
    at = 0
    for column, some in zip(columns, rows, strict=True):
        # the rows are right, and other modes copy twice
        column.take(some, axis=0, out=found[at : at + len(some)], mode="clip")
        at += len(some)
    return found
