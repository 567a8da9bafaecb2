"""``make walks``: how many files and functions of the package a call passes through.

Each walk is gone twice on S3 (moto), and the second time is counted, with all threads: by then
modules are imported, and clients are made. ``python -m tests.support.walks NAME`` lists the
functions of the walks whose names begin so, file by file. Compiled code and comprehensions do not
count.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from uuid import uuid4

import tfio_store as tfs
from tests.servers.moto import KEY, SECRET, moto
from tfio_store.cli.program import run

PACKAGE = Path(tfs.__file__).parent
SHARDS, RECORDS = 2, 5000

Steps = dict[str, set[CodeType]]


@contextmanager
def traced(found: set[CodeType]) -> Iterator[None]:
    """Adds to ``found`` each function of the package that is entered."""

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            found.add(frame.f_code)

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)
        threading.setprofile(None)


def of_package(found: set[CodeType]) -> Counter[str]:
    """How many functions there are of each file."""
    named = [code for code in found if not code.co_name.startswith("<")]
    paths = [Path(code.co_filename) for code in named]
    return Counter(str(path.relative_to(PACKAGE)) for path in paths if path.is_relative_to(PACKAGE))


def write(place: str, options: dict[str, Any]) -> Steps:
    steps: Steps = {"open": set(), "write": set(), "close": set()}
    with traced(steps["open"]):
        writer = tfs.ShardedWriter(f"{place}/{uuid4()}", num_shards=SHARDS, storage_options=options)
    with traced(steps["write"]):
        writer.write(b"a record")
    with traced(steps["close"]):
        writer.close()
    return steps


def read(place: str, options: dict[str, Any]) -> Steps:
    steps: Steps = {"open": set(), "iterate": set()}
    with traced(steps["open"]):
        reader = tfs.RecordReader(f"{place}/made", storage_options=options)
    with traced(steps["iterate"]):
        assert sum(1 for _ in reader) == RECORDS
    return steps


def tf_data(place: str, options: dict[str, Any]) -> Steps:
    steps: Steps = {"shuffle and batch": set(), "with a schema": set()}
    names = [f"{place}/made-0000{i}-of-0000{SHARDS}.tfrecord" for i in range(SHARDS)]
    with traced(steps["shuffle and batch"]):
        tfs.TFRecordDataset(names, storage_options=options).shuffle(100).batch(32)
    schema = tfs.Schema({"x": tfs.Feature("int64", shape=())})
    with traced(steps["with a schema"]):
        more = tfs.TFRecordDataset(f"{place}/made", schema=schema, storage_options=options)
        more.shuffle(100, seed=1).batch(32, drop_remainder=True)
    return steps


def partitions(place: str, options: dict[str, Any]) -> Steps:
    steps: Steps = {"plan": set(), "task": set()}
    with traced(steps["plan"]):
        parts = tfs.partitions(f"{place}/made", storage_options=options)
    with traced(steps["task"]):
        assert sum(table.num_rows for part in parts for table in part.arrow_batches()) == RECORDS
    return steps


def ray(place: str, options: dict[str, Any]) -> Steps:
    from tfio_store.ray import TFRecordDatasource

    steps: Steps = {"plan": set(), "task": set()}
    with traced(steps["plan"]):
        source = TFRecordDatasource(f"{place}/made", storage_options=options)
        tasks = source.get_read_tasks(2)
    with traced(steps["task"]):
        assert sum(table.num_rows for task in tasks for table in task()) == RECORDS
    return steps


def copy(place: str, options: dict[str, Any]) -> Steps:
    steps: Steps = {"command": set(), "function": set()}
    given = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    given = [word.replace("client_kwargs={'endpoint_url': '", "endpoint_url=").rstrip("'}")
             for word in given]  # fmt: skip
    words = ["copy", *given, "--num-shards", "3", f"{place}/made"]
    with traced(steps["command"]), contextlib.redirect_stderr(io.StringIO()):
        assert run([*words, f"{place}/{uuid4()}"]) == 0
    copied = partial(tfs.copy, f"{place}/made", f"{place}/{uuid4()}", num_shards=3)
    with traced(steps["function"]):
        copied(storage_options=options)
    return steps


def with_packages(walks: dict[str, Callable[..., Steps]]) -> dict[str, Callable[..., Steps]]:
    """Those whose packages are in this environment."""
    needed = {"TFRecordDataset": "tensorflow", "Ray": "ray"}
    return {
        name: walk
        for name, walk in walks.items()
        if name not in needed or importlib.util.find_spec(needed[name])
    }


def main() -> None:
    walks = with_packages(
        {
            "write": write,
            "read": read,
            "TFRecordDataset": tf_data,
            "partitions": partitions,
            "Ray": ray,
            "copy": copy,
        }
    )
    asked = sys.argv[1:]
    with moto() as endpoint:
        options = {"key": KEY, "secret": SECRET, "client_kwargs": {"endpoint_url": endpoint}}
        import s3fs

        s3fs.S3FileSystem(**options).mkdir("walks")
        place = "s3://walks"
        table = {"x": list(range(RECORDS))}
        tfs.write_table(table, f"{place}/made", num_shards=SHARDS, storage_options=options)
        print(f"| {'walk':33} | files | functions |\n| {'-' * 33} | ----: | --------: |")
        for name, walk in walks.items():
            if asked and not name.startswith(tuple(asked)):
                continue
            walk(place, options)
            for step, found in walk(place, options).items():
                files = of_package(found)
                print(f"| {f'{name}: {step}':33} | {len(files):5} | {files.total():9} |")
                if asked:
                    show(found)


def show(found: set[CodeType]) -> None:
    for path in sorted(of_package(found)):
        here = [code for code in found if code.co_filename == str(PACKAGE / path)]
        named = sorted((code.co_firstlineno, code.co_name) for code in here)
        print(f"    {path}: " + ", ".join(n for _, n in named if not n.startswith("<")))


if __name__ == "__main__":
    main()
