"""Files as people name them, and what each name of a source stands for: the same in every door."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tfio_store as tfs
from tests.support.framed import framed

__all__ = ["FILES", "MEANINGS", "MISTAKES", "file_names", "put_all", "put_in"]

DEEPVARIANT = [f"dv/examples.tfrecord-{i:05d}-of-00003.gz" for i in range(3)]
YDF = [f"ydf/ds-{i:05d}-of-00002" for i in range(2)]
BASENJI = [f"basenji/{split}-{i}.tfr" for split in ("test", "train", "valid") for i in range(12)]
SPARK = [f"spark/part-{i:05d}-c2f0b1-c000.tfrecord" for i in (0, 1, 4)]
LITERAL = ["lit/a,b", "lit/a", "lit/b", "lit/x@2", "lit/x-00000-of-00002", "lit/x-00001-of-00002",
           "lit/{1..2}", "lit/1", "lit/2", "lit/w[1]", "lit/w1", "lit/s?", "lit/st"]  # fmt: skip
HOLES = ["holes/x-00000-of-00004", "holes/x-00002-of-00004"]
UNICODE = [f"üñí/日本 {i}-of.tfrecord" for i in range(2)] + [
    f"üñí/é-{i:05d}-of-00002" for i in range(2)
]

FILES = [*DEEPVARIANT, *YDF, *BASENJI, *SPARK, *LITERAL, *HOLES, *UNICODE, "at@16/x@home/one"]
BESIDE = ["dv/examples.tfrecord-00000-of-00003.gz.example_info.json", "spark/_SUCCESS"]
"""Files beside them that hold no records."""

Named = Callable[[str], str]


def train(count: int) -> list[str]:
    return [f"basenji/train-{i}.tfr" for i in range(count)]


MEANINGS: dict[str, list[str]] = {
    "{}dv/examples.tfrecord@3.gz": DEEPVARIANT,
    "{}dv/examples.tfrecord@*.gz": DEEPVARIANT,
    "{}dv/examples.tfrecord@3": DEEPVARIANT,
    "{}dv/examples.tfrecord@*": DEEPVARIANT,
    "{}dv/examples.tfrecord-?????-of-00003.gz": DEEPVARIANT,
    "{}dv/examples.tfrecord-0000[0-1]-of-00003.gz": DEEPVARIANT[:2],
    "{}dv/ex*@3.gz": DEEPVARIANT,
    "{}dv/examples.tfrecord-{{00000..00002}}-of-00003.gz": DEEPVARIANT,
    "{}dv": DEEPVARIANT,
    "{}dv/": DEEPVARIANT,
    "tfrecord:{}ydf/ds@2": YDF,
    "tfrecordv2+gz:{}ydf/ds@2": YDF,
    "tfrecordv2+gz+tfe:{}ydf/ds@*": YDF,
    "tfrecord+tfe:{}ydf/ds-?????-of-00002": YDF,
    "tfrecord-nocompression:{}ydf/ds-00001-of-00002": YDF[1:],
    "tfrecord:{}ydf/ds@2,{}basenji/train-0.tfr": [*YDF, *train(1)],
    "tfrecord:{}ydf/ds@2,tfrecord:{}basenji/train-0.tfr": [*YDF, *train(1)],
    "{}ydf": YDF,
    "{}basenji/train-{{0..11}}.tfr": train(12),
    "{}basenji/{{train,valid}}-{{1,0}}.tfr": [
        f"basenji/{split}-{i}.tfr" for split in ("train", "valid") for i in (1, 0)
    ],
    "{}basenji/train-?.tfr": train(10),
    "{}**/train-[0-3].tfr": train(4),
    "{}basenji/train-0.tfr,{}ydf/ds@2,{}basenji/valid-1*.tfr": [
        *train(1), *YDF, *(f"basenji/valid-{i}.tfr" for i in (1, 10, 11)),
    ],
    "{}spark": SPARK,
    "{}spark/part-*": SPARK,
    "{}lit/a,b": ["lit/a,b"],
    "{}lit/a[,]b": ["lit/a,b"],
    "{}lit/a,{}lit/b": ["lit/a", "lit/b"],
    "{}lit/x@2": ["lit/x@2"],
    "{}lit/x[@]2": ["lit/x@2"],
    "{}lit/x@*": ["lit/x-00000-of-00002", "lit/x-00001-of-00002"],
    "{}lit/{{1..2}}": ["lit/{1..2}"],
    "{}lit/{{2,1}}": ["lit/2", "lit/1"],
    "{}lit/w[1]": ["lit/w[1]"],
    "{}lit/w[0-9]": ["lit/w1"],
    "{}lit/s?": ["lit/s?"],
    "{}lit/s*": ["lit/s?", "lit/st"],
    "{}üñí/é@2": UNICODE[2:],
    "{}üñí/日本*": UNICODE[:2],
    "{}üñí/日本 {{1,0}}-of.tfrecord": UNICODE[1::-1],
    "{}at@16/x@home/one": ["at@16/x@home/one"],
}  # fmt: skip
"""By a name, with ``{}`` for the place: the files that it stands for, in order."""

MISTAKES: dict[str, tuple[type[OSError], str]] = {
    "{}dv/exmaples.tfrecord@3.gz": (
        FileNotFoundError, r"No such file.*no dataset.*did you mean \S*dv/examples.tfrecord@3.gz\?",
    ),
    "{}dv/examples.tfrecord@4.gz": (FileNotFoundError, "did you mean .*examples.tfrecord@3.gz"),
    "{}dv/examples.tfrecord@100000000.gz": (FileNotFoundError, "did you mean .*tfrecord@3.gz"),
    "{}basenij/train-0.tfr": (FileNotFoundError, r"did you mean \S*basenji/train-0.tfr\?"),
    "{}basenji/trian-*.tfr": (
        FileNotFoundError, r"no file matches.*did you mean \S*basenji/train-\*.tfr",
    ),
    "{}basenji/train-[": (FileNotFoundError, "no file matches"),
    "{}basenji/{{train,trial}}-0.tfr": (FileNotFoundError, "trial-0.tfr"),
    "{}basenji": (IsADirectoryError, r"folder without a manifest.*basenji/train-\*.tfr"),
    "{}holes/x@4": (FileNotFoundError, r"2 of its 4 shards are missing: shards 1, 3.*x-00001-of-"),
    "{}holes/x@*": (FileNotFoundError, "2 of its 4 shards are missing"),
    "{}holes": (FileNotFoundError, "2 of its 4 shards are missing"),
    "{}holes/*@4": (FileNotFoundError, "2 of its 4 shards are missing"),
    "{}holes/x@5": (FileNotFoundError, "did you mean .*holes/x@4"),
    "{}nothing/at/all": (FileNotFoundError, "No such file or directory, and no dataset of this"),
}  # fmt: skip
"""By a name: the error of what it names, and a pattern for its text."""


def put_all(put: Callable[[str, bytes], object]) -> None:
    """Write `FILES`, each with one record that holds the file's name."""
    for name in FILES:
        put(name, framed([tfs.encode_example({"name": name})]))
    for name in BESIDE:
        put(name, b"{}")


def put_in(root: Path) -> str:
    """The same on this machine. Returns the folder."""

    def put(name: str, data: bytes) -> None:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    put_all(put)
    return str(root)


def file_names(records: Any) -> list[str]:
    """The names in records, as bytes."""
    found = tfs.decode_examples([bytes(one) for one in records], {"name": "str"})["name"]
    return [str(name) for name in found]
