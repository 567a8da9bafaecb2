"""Commands run in this process, on sources of each kind."""

from __future__ import annotations

import gzip
import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.framed import framed
from tfio_store.cli.entry import main

if find_spec("click") is None or find_spec("rich") is None:
    collect_ignore_glob = ["test_*"]  # a conftest that skips ends the whole run

ROWS = [{"id": i, "name": f"row {i}", "score": i / 4, "ids": list(range(i % 3))} for i in range(30)]
RECORDS = [tfs.encode_example(row) for row in ROWS]
SCHEMA: dict[str, Any] = {
    "id": "int64",
    "name": "str",
    "score": "float32",
    "ids": ("int64", (None,)),
}


DOCUMENTS = Path(__file__).parents[2] / "docs/cli.schema.json"


@cache
def _validator() -> Any:
    import jsonschema

    return jsonschema.Draft202012Validator(json.loads(DOCUMENTS.read_text(encoding="utf-8")))


def validated(document: dict[str, Any]) -> dict[str, Any]:
    """The document, which is as the kept schema says."""
    _validator().validate(document)
    return document


@dataclass
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        """The JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document."""
        (found,) = self.lines
        return validated(found)

    @property
    def told(self) -> list[dict[str, Any]]:
        """The JSON documents on stderr."""
        return [validated(json.loads(line)) for line in self.err.splitlines()]


Run = Callable[..., Answer]


@pytest.fixture(autouse=True)
def heeding() -> Iterator[None]:
    """What runs in a shell's background ignores Control-C, and what nohup runs ignores hangups,
    with all that starts from there. What tests start does not."""
    usual: dict[int, Any] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGHUP: signal.SIG_DFL,
    }
    ignored = [number for number in usual if signal.getsignal(number) == signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, usual[number])
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """``run("count", url)``"""

    def command(*arguments: object) -> Answer:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Answer(code, out, err)

    return command


@dataclass
class Kept:
    """A source with `RECORDS` in it, at a place."""

    kind: str
    place: Place
    url: str

    @property
    def options(self) -> list[str]:
        """What a command needs to reach it."""
        given = self.place.storage_options
        return ["-o", json.dumps(given)] if given else []

    @property
    def has_manifest(self) -> bool:
        return self.kind.startswith("manifest")


KINDS = ["manifest raw", "manifest GZIP", "foreign raw", "foreign GZIP"]


def keep(kind: str, place: Place) -> Kept:
    written, codec = kind.split()
    if written == "manifest":
        with tfs.ShardedWriter(
            place.url("train"),
            num_shards=1,
            compression=None if codec == "raw" else codec,
            schema=tfs.Schema(SCHEMA),
            storage_options=place.storage_options,
        ) as writer:
            writer.write_batch(RECORDS)
        return Kept(kind, place, place.url("train"))
    data = framed(RECORDS)
    return Kept(kind, place, place.put("f", data if codec == "raw" else gzip.compress(data)))


@pytest.fixture(params=KINDS)
def kept(request: pytest.FixtureRequest, place: Place) -> Kept:
    """Each kind, at each place."""
    return keep(request.param, place)


@pytest.fixture(params=KINDS)
def local(request: pytest.FixtureRequest, tmp_path: Any) -> Kept:
    """Each kind, on local files."""
    return keep(request.param, Place(str(tmp_path)))
