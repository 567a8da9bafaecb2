"""Episodes to a dataset of LeRobot, format v3.0: Parquet files of steps, MP4 files of cameras.

The layout is that of ``lerobot.datasets`` of huggingface/lerobot: ``meta/info.json`` describes the
features, ``meta/tasks.parquet`` the texts of tasks, ``meta/episodes`` where the steps and frames of
each episode lie. Many episodes share a file. ``info.json`` is written last.
"""

from __future__ import annotations

import importlib.util
import io
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tfio_store.dataset.folder import Folder
from tfio_store.episodes.decoding import Episode, Images, values_at
from tfio_store.episodes.features import Leaf, Tree
from tfio_store.episodes.windows import EpisodeSource
from tfio_store.storage.store import OutputFile

__all__ = ["write_lerobot"]

_INFO = "meta/info.json"
_DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
_VIDEOS = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
_EPISODES = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
_CHUNK_FILES = 1000
_DATA_MB, _VIDEO_MB = 100, 200
"""A file of so many MB is not continued by the next episode."""

_TASKS = ("language_instruction", "observation/natural_language_instruction", "instruction")
"""Where datasets of Open X-Embodiment keep the text of the task."""

_SAMPLED = 16
"""The statistics of an image are those of so many frames of an episode."""

_CODECS = ("libsvtav1", "libx264", "mpeg4")
_OWN = ("timestamp", "frame_index", "episode_index", "index", "task_index")


def write_lerobot(
    source: EpisodeSource,
    folder: Folder,
    *,
    fps: int,
    robot_type: str | None,
    task: str | None,
    videos: bool | None,
) -> int:
    """Write all episodes; the number of steps. ImportError without pyarrow, or if videos are wanted
    and there is no av. FileExistsError if the folder has a dataset. ValueError for features that
    the format has no place for."""
    if folder.read(_INFO) is not None:
        raise FileExistsError(f"{folder.url(_INFO)}: a dataset is there; name another folder")
    if videos is None:
        videos = importlib.util.find_spec("av") is not None
    columns, texts = _columns(source.features, task, videos)
    made = _Made(folder, columns, fps)
    tasks: dict[str, int] = {}
    try:
        for number in range(len(source.lengths)):
            episode = source._load(np.array([number]))[number]
            if episode.steps:
                said = _said(episode, texts)
                made.add(number, episode, said, tasks)
        made.close()
    except BaseException:
        made.abort()
        raise
    _write_tasks(folder, tasks)
    stats = {name: stat.to_json() for name, stat in made.stats.items()}
    folder.put("meta/stats.json", json.dumps(stats, indent=4).encode())
    info = {
        "codebase_version": "v3.0",
        "robot_type": robot_type,
        "total_episodes": made.episodes,
        "total_frames": made.frames,
        "total_tasks": len(tasks),
        "chunks_size": _CHUNK_FILES,
        "data_files_size_in_mb": _DATA_MB,
        "video_files_size_in_mb": _VIDEO_MB,
        "fps": fps,
        "splits": {"train": f"0:{made.episodes}"},
        "data_path": _DATA,
        "video_path": _VIDEOS if made.videos else None,
        "features": {**{c.name: c.feature(made.shapes, fps) for c in columns}, **_own_features()},
    }
    folder.put(_INFO, json.dumps(info, indent=4).encode(), if_absent=True)
    return made.frames


@dataclass(frozen=True, slots=True)
class _Column:
    """A feature of the steps, as LeRobot names it. ``dtype``: numpy's, "string", "image" or
    "video"."""

    name: str
    leaf: Leaf
    dtype: str

    def feature(self, shapes: Mapping[str, tuple[int, ...]], fps: int) -> dict[str, Any]:
        if self.dtype in ("image", "video"):
            found: dict[str, Any] = {
                "dtype": self.dtype,
                "shape": list(shapes.get(self.name, (0, 0, 3))),
                "names": ["height", "width", "channels"],
            }
            if self.dtype == "video":
                found["info"] = {"video.fps": fps, "video.is_depth_map": False, "has_audio": False}
            return found
        shape = list(self.leaf.shape) or [1]
        return {"dtype": self.dtype, "shape": shape, "names": None}


def _own_features() -> dict[str, Any]:
    kinds = {"timestamp": "float32"}
    return {n: {"dtype": kinds.get(n, "int64"), "shape": [1], "names": None} for n in _OWN}


def _columns(tree: Tree, task: str | None, videos: bool) -> tuple[list[_Column], Leaf | None]:
    names = {leaf.short: leaf for leaf in tree.steps}
    wanted = next((name for name in _TASKS if name in names), None) if task is None else task
    texts = None if wanted is None else names.get(wanted)
    if task is not None and (texts is None or texts.kind != "text"):
        known = ", ".join(name for name, leaf in names.items() if leaf.kind == "text")
        raise ValueError(f"task= names {task!r}, and the texts of the steps are {known or 'none'}")
    found = []
    for leaf in tree.steps:
        if leaf is texts:
            continue
        if len(leaf.levels) > 1 or leaf.width is None or (leaf.kind == "tensor" and leaf.dynamic):
            raise ValueError(
                f"{leaf.short} varies in shape from step to step, for which LeRobot has no place: "
                "leave it out by keys= of Episodes"
            )
        found.append(_Column(_name(leaf), leaf, _dtype(leaf, videos)))
    twice = {c.name for c in found if c.name in _OWN}
    if twice:
        raise ValueError(f"LeRobot has a column {twice.pop()!r} itself: leave it out by keys=")
    return found, texts


def _name(leaf: Leaf) -> str:
    path = leaf.within
    if leaf.kind == "image":
        return ".".join(("observation", "images", *path[path[0] == "observation" :]))
    return ".".join(path)


def _dtype(leaf: Leaf, videos: bool) -> str:
    if leaf.kind == "image":
        return "video" if videos and leaf.dtype == "uint8" and leaf.shape[-1] == 3 else "image"
    if leaf.kind == "text" or leaf.dtype == "bytes":
        return "string"
    return leaf.dtype


def _said(episode: Episode, texts: Leaf | None) -> list[str]:
    if texts is None:
        return [""] * episode.steps
    found: list[str] = values_at(episode, texts, np.arange(episode.steps), Images()).tolist()
    return found


@dataclass(frozen=True, slots=True)
class _Stat:
    """Least, most, mean and deviation of the values of a feature, of each place of its shape."""

    count: int
    low: Any
    high: Any
    sum: Any
    squares: Any

    @classmethod
    def of(cls, values: Any) -> _Stat:
        """That of values [n, ...]; there is at least one."""
        wide = values.astype(np.float64)
        sums = wide.sum(axis=0), (wide**2).sum(axis=0)
        return cls(len(values), wide.min(axis=0), wide.max(axis=0), *sums)

    def __add__(self, other: _Stat) -> _Stat:
        """That of the values of both."""
        return _Stat(
            self.count + other.count,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.sum + other.sum,
            self.squares + other.squares,
        )

    def to_json(self) -> dict[str, Any]:
        mean = self.sum / self.count
        std = np.sqrt(np.maximum(self.squares / self.count - mean**2, 0))
        found = {"min": self.low, "max": self.high, "mean": mean, "std": std}
        listed = {name: np.atleast_1d(value).tolist() for name, value in found.items()}
        return {**listed, "count": [self.count]}


@dataclass(slots=True)
class _Video:
    """The MP4 file of one camera that is being written, on a local disk."""

    path: Path
    container: Any
    stream: Any
    frames: int = 0


@dataclass(slots=True)
class _Made:
    """The totals of what has been written."""

    folder: Folder
    columns: list[_Column]
    fps: int
    episodes: int = 0
    frames: int = 0
    stats: dict[str, _Stat] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    """How many files of the data, and of each camera, are finished."""
    open_videos: dict[str, _Video] = field(default_factory=dict)
    data: Any = None
    output: Any = None
    file: Any = None
    scratch: Any = None

    @property
    def videos(self) -> list[str]:
        return [column.name for column in self.columns if column.dtype == "video"]

    def add(self, number: int, episode: Episode, said: list[str], tasks: dict[str, int]) -> None:
        """One episode: its rows, its frames, and where they lie."""
        rows = np.arange(episode.steps)
        row: dict[str, Any] = {
            "episode_index": self.episodes,
            "tasks": list(dict.fromkeys(said)),
            "length": episode.steps,
            "dataset_from_index": self.frames,
            "dataset_to_index": self.frames + episode.steps,
        }
        table: dict[str, Any] = {}
        for column in self.columns:
            stat = None
            if column.dtype == "video":
                frames = self._film(column, episode, row)
                stat = _Stat.of(_pixels_of(frames[:: max(1, len(frames) // _SAMPLED)]))
            elif column.dtype == "image":
                encoded = values_at(episode, column.leaf, rows, Images(encoded=True))
                table[column.name] = [{"bytes": data, "path": None} for data in encoded]
                some = values_at(episode, column.leaf, rows[:: max(1, len(rows) // 4)], Images())
                self._shape(column, number, some)
                if some.dtype == np.uint8:
                    stat = _Stat.of(_pixels_of(some))
            else:
                values = values_at(episode, column.leaf, rows, Images())
                table[column.name] = values
                if values.dtype.kind in "fiub":
                    stat = _Stat.of(values)
            if stat is not None:
                for name, value in stat.to_json().items():
                    row[f"stats/{column.name}/{name}"] = value
                known = self.stats.get(column.name)
                self.stats[column.name] = stat if known is None else known + stat
        for text in row["tasks"]:
            tasks.setdefault(text, len(tasks))
        table["timestamp"] = (rows / self.fps).astype(np.float32)
        table["frame_index"] = rows
        table["episode_index"] = np.full(len(rows), self.episodes)
        table["index"] = rows + self.frames
        table["task_index"] = np.array([tasks[text] for text in said], np.int64)
        self._write(table, row)
        self.rows.append(row)
        self.episodes += 1
        self.frames += episode.steps

    def _shape(self, column: _Column, number: int, pixels: Any) -> None:
        shapes = {p.shape for p in pixels}
        known = self.shapes.setdefault(column.name, next(iter(shapes)))
        if shapes != {known}:
            odd = (shapes - {known}).pop()
            raise ValueError(
                f"episode {number}: {column.leaf.short} has frames of {odd}, and others are of "
                f"{known}: pass images= to Episodes, or leave it out by keys="
            )

    def _film(self, column: _Column, episode: Episode, row: dict[str, Any]) -> Any:
        """Put an episode's frames behind those of others; they are returned."""
        import av

        frames = values_at(episode, column.leaf, np.arange(episode.steps), Images())
        self._shape(column, episode.place.episode, frames)
        video = self.open_videos.get(column.name) or self._new_video(column, frames.shape[1:])
        chunk, file = self._place(column.name)
        row[f"videos/{column.name}/chunk_index"] = chunk
        row[f"videos/{column.name}/file_index"] = file
        row[f"videos/{column.name}/from_timestamp"] = video.frames / self.fps
        for pixels in frames:
            made = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
            made.pts = video.frames
            for packet in video.stream.encode(made):
                video.container.mux(packet)
            video.frames += 1
        row[f"videos/{column.name}/to_timestamp"] = video.frames / self.fps
        if video.path.exists() and video.path.stat().st_size >= _VIDEO_MB * 1_000_000:
            self._end_video(column.name)
        return frames

    def _new_video(self, column: _Column, shape: tuple[int, ...]) -> _Video:
        import av

        if self.scratch is None:
            self.scratch = tempfile.TemporaryDirectory(prefix="tfio_store-lerobot-")
        path = Path(self.scratch.name) / f"{column.name}.mp4"
        container = av.open(str(path), "w")
        codec = next(name for name in _CODECS if name in av.codecs_available)
        stream = container.add_stream(codec, rate=self.fps)
        stream.height, stream.width, stream.pix_fmt = shape[0], shape[1], "yuv420p"
        if codec != "mpeg4":
            stream.options = {"g": "2", "crf": "30"}
        self.open_videos[column.name] = _Video(path, container, stream)
        return self.open_videos[column.name]

    def _end_video(self, name: str) -> None:
        video = self.open_videos.pop(name)
        for packet in video.stream.encode():
            video.container.mux(packet)
        video.container.close()
        chunk, file = self._place(name)
        target = _VIDEOS.format(video_key=name, chunk_index=chunk, file_index=file)
        output = self.folder.store.open_output(self.folder.join(target))
        try:
            with video.path.open("rb") as made:
                while piece := made.read(8 << 20):
                    output.write(piece)
            output.commit()
        except BaseException:
            output.abort()
            raise
        video.path.unlink()
        self.numbers[name] = self.numbers.get(name, 0) + 1

    def _place(self, name: str) -> tuple[int, int]:
        return divmod(self.numbers.get(name, 0), _CHUNK_FILES)

    def _write(self, columns: Mapping[str, Any], row: dict[str, Any]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.table({name: _arrow(pa, column) for name, column in columns.items()})
        chunk, file = self._place("")
        row["data/chunk_index"], row["data/file_index"] = chunk, file
        if self.data is None:
            name = _DATA.format(chunk_index=chunk, file_index=file)
            self.output = self.folder.store.open_output(self.folder.join(name))
            self.file = OutputFile(self.output)
            self.data = pq.ParquetWriter(self.file, table.schema)
        self.data.write_table(table.cast(self.data.schema))
        if self.file.tell() >= _DATA_MB * 1_000_000:
            self._end_data()

    def _end_data(self) -> None:
        self.data.close()
        self.output.commit()
        self.data = self.output = None
        self.numbers[""] = self.numbers.get("", 0) + 1

    def close(self) -> None:
        """Finish all files, and write where the episodes lie."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        for name in list(self.open_videos):
            self._end_video(name)
        if self.data is not None:
            self._end_data()
        if self.scratch is not None:
            self.scratch.cleanup()
        rows = [
            {**row, "meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0}
            for row in self.rows
        ]
        name = _EPISODES.format(chunk_index=0, file_index=0)
        _put_table(self.folder, name, pa.Table.from_pylist(rows), pq)

    def abort(self) -> None:
        """Nothing that is not finished appears."""
        if self.output is not None:
            self.data.close()  # or it would end itself later, into what has ended
            self.output.abort()
        for video in self.open_videos.values():
            video.container.close()
        if self.scratch is not None:
            self.scratch.cleanup()


def _pixels_of(frames: Any) -> Any:
    """Pixels from 0 to 1 by channel, [n, c, 1, 1], as LeRobot has their statistics."""
    found = np.concatenate([np.reshape(each, (-1, each.shape[-1])) for each in frames])
    return (found / 255.0).reshape(*found.shape, 1, 1)


def _arrow(pa: Any, column: Any) -> Any:
    if isinstance(column, list):
        return pa.array(column, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    if column.dtype == object:
        texts = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in column]
        return pa.array(texts)
    if column.ndim == 1 or column[0].size == 1:
        return pa.array(column.reshape(len(column)))
    flat: Any = pa.array(column.ravel())
    for size in reversed(column.shape[1:]):
        flat = pa.FixedSizeListArray.from_arrays(flat, size)
    return flat


def _write_tasks(folder: Folder, tasks: Mapping[str, int]) -> None:
    """The texts as the index of a data frame, which pandas reads so."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def column(name: str, kind: str, dtype: str) -> dict[str, Any]:
        return {
            "name": name, "field_name": name, "pandas_type": kind, "numpy_type": dtype,
            "metadata": None,
        }  # fmt: skip

    pandas = {
        "index_columns": ["task"],
        "column_indexes": [],
        "columns": [column("task_index", "int64", "int64"), column("task", "unicode", "object")],
        "pandas_version": "2.0.0",
    }
    table = pa.table(
        {"task_index": pa.array(tasks.values(), pa.int64()), "task": pa.array(tasks, pa.string())}
    )
    table = table.replace_schema_metadata({"pandas": json.dumps(pandas)})
    _put_table(folder, "meta/tasks.parquet", table, pq)


def _put_table(folder: Folder, name: str, table: Any, pq: Any) -> None:
    file = io.BytesIO()
    pq.write_table(table, file)
    folder.put(name, file.getvalue())
