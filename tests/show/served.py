"""A server at work, what asks it, and a stand-in for the sample that it shows."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tfio_store as tfs
from tfio_store.read.reader import RecordReader
from tfio_store.show.kept import Opened
from tfio_store.show.model import Facts, FeatureFacts, Header, Item, Place, Scope
from tfio_store.show.server.answers import Answers
from tfio_store.show.server.content import Content
from tfio_store.show.server.opening import Opening
from tfio_store.show.server.running import serving
from tfio_store.show.server.samples import Key, Look, Looked, Samples
from tfio_store.show.server.viewing import answers_of
from tfio_store.write.progress import OnProgress, Progress


@dataclass
class AllRecords:
    """A sample that is the whole source."""

    records: list[bytes]

    @property
    def places(self) -> list[Place]:
        count = max(1, len(self.records))
        return [Place(i, 0, i, 16 * i, i / count) for i in range(len(self.records))]

    def record(self, row: int) -> bytes:
        return self.records[row]

    def held(self) -> Iterator[tuple[Any, tfs.RecordBatch]]:
        yield np.arange(len(self.records)), tfs.RecordBatch.from_records(self.records)


def look_at_all(opened: Opened, key: Key, on_progress: OnProgress) -> Looked:
    """What stands in for a sample and its facts."""
    with RecordReader.of(opened.dataset) as reader:
        records = list(reader)
    on_progress(Progress(len(records), sum(map(len, records)), 0, None))
    return Looked(AllRecords(records), facts_of(opened, records, key))


def facts_of(opened: Opened, records: list[bytes], key: Key) -> Facts:
    names = sorted({held.name for record in records for held in Content(record).features})
    header = Header(
        opened.name, len(records), 0, 1, "none", (), "none", None, None, "2026-01-02T03:04:05Z", "0"
    )
    scope = Scope(1, 1, False, len(records), len(records), 0, True, key.seed, ())
    place = Place(0, 0, 0, 0, 0.0)
    items = (
        Item("image", "image", place, (), 8, False, "image/png", b"\x89PNG\r\n\x1a\n", 1, 1),
        Item("text", "text", place, (), 2, False, text="hi"),
    )
    return Facts(header, scope, (), tuple(map(feature, names)), (), 0.0, (), (), items, (place,))


def feature(name: str) -> FeatureFacts:
    ends = (None, None, None, None)
    return FeatureFacts(
        name, "int64", "number", 1, 1, 1, 0, 0, 0, *ends, (), None, None, 0, 0, 0.0, None, (), True
    )


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Client:
    """Asks a server as a browser does, or worse."""

    port: int
    token: str
    cookie: str = field(default="", repr=False)

    def ask(
        self, path: str, *, method: str = "GET", headers: Mapping[str, str | None] | None = None
    ) -> Answer:
        """One request. A header of None is left out."""
        given: dict[str, str | None] = {"Host": f"127.0.0.1:{self.port}"}
        if self.cookie:
            given["Cookie"] = self.cookie
        given |= headers or {}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(connection):
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            body = answer.read()
        return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, body)

    def get(self, path: str) -> Any:
        """The JSON of an answer that must be good."""
        answer = self.ask(path)
        assert answer.status == 200, answer.body
        return answer.json

    def log_in(self) -> Client:
        answer = self.ask(f"/?token={self.token}")
        assert answer.status == 303, answer.body
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return self

    def ready(self, query: str = "") -> Any:
        """What `/api/facts` answers once the sample is taken."""
        deadline = time.monotonic() + 60
        while (told := self.get(f"/api/facts{query}"))["state"] == "working":
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return told


@contextlib.contextmanager
def served(
    source: Any, *, look: Look = look_at_all, blocks: int = 8, **options: Any
) -> Iterator[Client]:
    """A server that shows a source, and who has logged in to it."""
    with served_by(Opening(source, **options).open, look, blocks=blocks) as client:
        yield client.log_in()


def answers_by(open_source: Callable[[], Any], look: Look, *, blocks: int = 8) -> Answers:
    return Answers(Samples(open_source, look), "train", Key(0, blocks))


@contextlib.contextmanager
def viewed(source: Any, *, blocks: int = 64, **options: Any) -> Iterator[Client]:
    """What `tfio-store view` serves, and who has logged in to it."""
    with serving(answers_of(source, blocks=blocks, **options)) as running:
        yield Client(running.port, running.url.partition("token=")[2]).log_in()


@contextlib.contextmanager
def served_by(open_source: Callable[[], Any], look: Look, *, blocks: int = 8) -> Iterator[Client]:
    with serving(answers_by(open_source, look, blocks=blocks)) as running:
        yield Client(running.port, running.url.partition("token=")[2])
