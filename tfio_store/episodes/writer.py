"""`EpisodeWriter` and `write_tfds`: folders that TensorFlow Datasets opens as its own."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from tfio_store.dataset.checks import check_name, check_positive
from tfio_store.dataset.folder import Folder
from tfio_store.dataset.tfds import DESCRIPTION_BYTES
from tfio_store.episodes.encoding import encode_nested
from tfio_store.episodes.features import Tree
from tfio_store.episodes.step_index import ShardSteps, encode_index, index_name
from tfio_store.records.framing import FRAME_OVERHEAD
from tfio_store.storage import Storage
from tfio_store.storage.redaction import redacted
from tfio_store.storage.storage import for_writing, given_storage
from tfio_store.write.file_writer import TFRecordWriter
from tfio_store.write.lifecycle import Lifecycle

_INFO, _FEATURES = "dataset_info.json", "features.json"
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_NAME = re.compile(r"\w+")
_MOST_SHARDS = 99_999
_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"


class EpisodeWriter(Lifecycle):
    """Writes a split of a dataset of RLDS, as TensorFlow Datasets lays it out.

    The folder is one that ``tfds.builder_from_directory`` opens, and `Episodes` with its index of
    steps. ``dataset_info.json``, which makes it one, is written last. So there is a whole split or
    none: an exception inside ``with`` leaves nothing that a reader sees, and a killed process only
    shards that nothing names, which the next writer replaces. One process at a time may write a
    split.

    A folder is of one version, and what it names is never replaced: other data go into the folder
    of another version. A further split goes into the same folder, by the same features.

    Args:
        url (str | PathLike): The folder of the dataset's version: ``s3://bucket/arm/1.0.0``.
        features (dict | Tree): Nested as the episodes are; what lies below "steps" each step has.
            A leaf is a `Feature`, a dtype or (dtype, shape), where a first dimension None is a
            sequence. `Feature.image` has images, `Feature.text` text, and `Feature.class_label`
            classes. ``raw=True`` keeps numbers as bytes; otherwise float64 is rounded to float32,
            as TensorFlow Datasets does. Or the ``features`` of `Episodes`.
        split (str): The split's name. Default "train".
        name (str | None): The dataset's name. Default None: the folder's, before the version.
        num_shards (int): How many files; episodes go into them in turn. Default 16.
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.

    Raises:
        OSError: The storage fails; FileExistsError if the folder has the split.
        TypeError: A feature or an episode's value is of another kind.
        ValueError: An argument is not as described, an episode does not fit the features, or the
            folder holds other features.

    Example:
        >>> import numpy as np
        >>> features = {
        ...     "steps": {
        ...         "observation": {"image": tfs.Feature.image("png"), "state": ("float32", (7,))},
        ...         "action": ("float32", (7,)),
        ...         "language_instruction": tfs.Feature.text(),
        ...     },
        ...     "episode_metadata": {"file_path": tfs.Feature.text()},
        ... }
        >>> step = {
        ...     "observation": {"image": np.zeros((8, 8, 3), np.uint8), "state": np.zeros(7)},
        ...     "action": np.ones(7),
        ...     "language_instruction": "pick up the cup",
        ... }
        >>> with tfs.EpisodeWriter("arm/1.0.0", features, num_shards=1) as writer:
        ...     writer.write({"steps": [step] * 5, "episode_metadata": {"file_path": "a.h5"}})
        >>> tfs.Episodes("arm/1.0.0")[0]["steps"]["observation"]["image"].shape
        (5, 8, 8, 3)
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        features: Mapping[str, Any] | Tree,
        *,
        split: str = "train",
        name: str | None = None,
        num_shards: int = 16,
        storage_options: Mapping[str, Any] | None = None,
        storage: Storage | None = None,
    ) -> None:
        check_positive("num_shards=", num_shards)
        if num_shards > _MOST_SHARDS:
            raise ValueError(f"num_shards= takes at most {_MOST_SHARDS}, not {num_shards}")
        self._tree = Tree.of(features)
        if self._tree.unknown:
            raise ValueError(f"features= has {self._tree.unknown[0]}, of a kind that is not known")
        self._storage = for_writing(given_storage(storage_options, storage))
        store, path = self._storage.open(url)
        self._folder = Folder(store, path.rstrip("/"))
        self._shown = redacted(os.fspath(url))
        self._name, self._version = _names(self._folder.path, name)
        if not isinstance(split, str) or not _NAME.fullmatch(split):
            raise ValueError(f"split= takes letters, digits and underscores, not {split!r}")
        self._split = split
        self._info()  # which refuses what is there
        self._shards = [
            _Shard(
                f"{self._name}-{split}.tfrecord-{i:05d}-of-{num_shards:05d}",
                self._folder,
                self._storage,
            )
            for i in range(num_shards)
        ]
        self._count = 0

    def write(self, episode: Mapping[str, Any]) -> None:
        """Add one episode.

        Args:
            episode (dict): Nested as the features are. ``steps`` are a list of steps, or a mapping
                of arrays whose first dimension is the steps, as `Episodes` gives them. Images are
                pixels, or encoded already.

        Raises:
            OSError: Writing has failed.
            TypeError: A value is of another kind. The error names the feature.
            ValueError: The episode lacks a feature or has one more, or a value is of another shape
                or does not fit; or the writer is closed.
        """
        if self._ended:
            self._refuse()
        record, steps = encode_nested(self._tree, episode)
        try:
            self._shards[self._count % len(self._shards)].write(record, steps)
        except BaseException as error:
            self._end(error)
            raise
        self._count += 1

    def close(self) -> None:
        """Write what is left, and then what makes the folder a dataset.

        A second call does nothing, or raises the failure of the first again.

        Raises:
            OSError: Writing has failed, or somebody else has written the split. Nothing that a
                reader sees has changed.

        Example:
            >>> writer = tfs.EpisodeWriter("arm/1.0.0", {"steps": {"action": "float32"}})
            >>> writer.write({"steps": [{"action": 0.5}]})
            >>> writer.close()
        """
        if self._ended:
            if self._failure is not None:
                raise self._failure
            return
        try:
            self._info()
            made = [shard.close() for shard in self._shards]
            self._commit(made)
        except BaseException as error:
            self._end(error)
            raise
        self._set_ended(None)

    def abort(self) -> None:
        """Give up: nothing appears. After `close` it does nothing.

        Example:
            >>> writer = tfs.EpisodeWriter("arm/1.0.0", {"steps": {"action": "float32"}})
            >>> writer.write({"steps": [{"action": 0.5}]})
            >>> writer.abort()
        """
        if not self._ended:
            self._end(None)

    def _end(self, failure: BaseException | None) -> None:
        self._set_ended(failure)
        for shard in self._shards:
            shard.abort()

    def _info(self) -> tuple[dict[str, Any], str | None] | None:
        """The description of the folder, if there is one, and its etag. FileExistsError if it has
        the split, and ValueError if it is of something else."""
        stored = self._folder.read(_INFO, most=DESCRIPTION_BYTES)
        if stored is None:
            return None
        url = self._folder.url(_INFO)
        try:
            info: dict[str, Any] = json.loads(stored[0])
            splits = [split["name"] for split in info["splits"]]
            there = info["name"], info["version"]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ValueError(f"{url}: is there, and describes no dataset: {error!r}") from error
        if self._split in splits:
            raise FileExistsError(
                f"{url}: the split {self._split!r} is there; write into the folder of another "
                "version"
            )
        if there != (self._name, self._version):
            raise ValueError(f"{url}: is of {there[0]} {there[1]}, not of {self._name}")
        features = self._folder.read(_FEATURES, most=DESCRIPTION_BYTES)
        bare = self._tree.with_names({})  # which features.json does not hold
        if features is None or Tree.from_json(features[0], url=url).leaves != bare.leaves:
            raise ValueError(f"{self._folder.url(_FEATURES)}: holds other features")
        return info, stored[1]

    def _commit(self, made: list[ShardSteps]) -> None:
        folder, found = self._folder, self._info()
        if self._tree.steps:
            folder.put(index_name(self._split), encode_index(made))
        split = {
            "filepathTemplate": _TEMPLATE,
            "name": self._split,
            "numBytes": str(sum(shard.data_bytes for shard in self._shards)),
            "shardLengths": [str(len(shard.steps)) for shard in made],
        }
        if found is not None:
            info, etag = found
            info["splits"] = [*info["splits"], split]
            data = json.dumps(info, indent=2).encode()
            folder.store.put(folder.join(_INFO), data, if_match=etag)
            return
        folder.put(_FEATURES, self._tree.to_json())
        for leaf in self._tree.leaves:
            if leaf.names:
                names = "".join(f"{name}\n" for name in leaf.names)
                folder.put(leaf.names_file, names.encode())
        info = {
            "fileFormat": "tfrecord",
            "name": self._name,
            "splits": [split],
            "version": self._version,
        }
        folder.put(_INFO, json.dumps(info, indent=2).encode(), if_absent=True)

    def __del__(self, warn: Callable[..., None] = warnings.warn) -> None:
        if not self._ended and self.__dict__.get("_count"):
            warn(
                "an EpisodeWriter was dropped without close(): what it was given is lost",
                stacklevel=2,
            )


class _Shard:
    """One file, and where its episodes lie in it."""

    def __init__(self, name: str, folder: Folder, storage: Storage) -> None:
        self.name = name
        self._folder, self._storage = folder, storage
        self._file: TFRecordWriter | None = None
        self._steps: list[int] = []
        self._lengths: list[int] = []

    @property
    def data_bytes(self) -> int:
        """The bytes of the records, without their frames."""
        return sum(self._lengths)

    def write(self, record: bytes, steps: int) -> None:
        self._opened().write(record)
        self._steps.append(steps)
        self._lengths.append(len(record))

    def close(self) -> ShardSteps:
        """Make the file visible; an empty one too, since others are numbered among all."""
        self._opened().close()
        folder = self._folder
        info = folder.store.info(folder.join(self.name))
        ends = np.cumsum(np.array(self._lengths, np.int64) + FRAME_OVERHEAD)
        nbytes = int(ends[-1]) if len(ends) else 0
        if info.size != nbytes:
            raise OSError(
                f"{folder.url(self.name)}: has {info.size} bytes where {nbytes} were written: "
                "somebody else writes it too"
            )
        starts = ends - np.array(self._lengths, np.int64) - FRAME_OVERHEAD
        steps = np.array(self._steps, np.int64)
        return ShardSteps(self.name, nbytes, info.etag, steps, starts.astype(np.int64))

    def _opened(self) -> TFRecordWriter:
        if self._file is None:
            url = self._folder.store.address(self._folder.join(self.name))
            self._file = TFRecordWriter(url, storage=self._storage)
        return self._file

    def abort(self) -> None:
        if self._file is not None:
            self._file.abort()


def write_tfds(
    url: str | os.PathLike[str],
    examples: Iterable[Mapping[str, Any]],
    features: Mapping[str, Any] | Tree,
    *,
    split: str = "train",
    name: str | None = None,
    num_shards: int = 16,
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
) -> int:
    """Write examples as a split that TensorFlow Datasets opens as its own.

    ``tfds.builder_from_directory(url)`` reads it, and `RecordReader` and all other functions here
    take ``URL/SPLIT`` as a source. See `EpisodeWriter` for what the folder holds, and when it
    appears.

    Args:
        url (str | PathLike): See `EpisodeWriter`.
        examples (Iterable[dict]): Nested as the features are.
        features (dict | Tree): See `EpisodeWriter`; there need be no steps.
        split (str): See `EpisodeWriter`. Default "train".
        name (str | None): See `EpisodeWriter`. Default None.
        num_shards (int): See `EpisodeWriter`. Default 16.
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.

    Returns:
        int: The number of examples.

    Raises:
        OSError: The storage fails; FileExistsError if the folder has the split.
        TypeError: A feature or a value is of another kind.
        ValueError: An argument is not as described, or an example does not fit the features.

    Example:
        >>> features = {"x": ("float32", (2,)), "label": tfs.Feature.class_label(["cat", "dog"])}
        >>> examples = [{"x": [i, 0], "label": "dog"} for i in range(3)]
        >>> tfs.write_tfds("pets/1.0.0", examples, features, num_shards=2)
        3
        >>> tfs.read_table("pets/1.0.0/train")["label"]
        array([1, 1, 1])
    """
    with EpisodeWriter(
        url,
        features,
        split=split,
        name=name,
        num_shards=num_shards,
        storage_options=storage_options,
        storage=storage,
    ) as writer:
        for example in examples:
            writer.write(example)
        return writer._count


def _names(path: str, name: str | None) -> tuple[str, str]:
    """The dataset's name and version. ValueError for a name that is none."""
    parts = [part for part in path.split("/") if part]
    version = "1.0.0"
    if parts and _VERSION.fullmatch(parts[-1]):
        version = parts.pop()
    found = name if name is not None else re.sub(r"\W", "_", parts[-1] if parts else "")
    if not isinstance(found, str) or not _NAME.fullmatch(check_name(found or "?")):
        raise ValueError(
            f"name= takes letters, digits and underscores, not {found!r}; by default it is the "
            "folder's name, before the version"
        )
    return found, version
