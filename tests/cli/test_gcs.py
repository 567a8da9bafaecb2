"""Commands on Google Cloud Storage: what they answer there is what they answer on local files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import KINDS, Run, keep
from tests.servers.place import Place

READING = [
    ["count"], ["count", "--per-shard"], ["info"], ["schema"], ["head"], ["tail"], ["cat"],
    ["sample", "-n", "5", "--seed", "1"], ["verify"], ["stats"],
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_reading(run: Run, gcs: Place, tmp_path: Path, kind: str) -> None:
    there, here = keep(kind, gcs), keep(kind, Place(str(tmp_path)))
    for command, *options in READING:
        found = run(command, there.url, *options, *there.options, "--json")
        wanted = run(command, here.url, *options, "--json")
        assert (found.code, found.err) == (0, "")
        told, same = found.document, wanted.document
        assert told.keys() == same.keys()
        for name in {"records", "schema", "seen", "features", "ok", "compression"} & told.keys():
            assert told[name] == same[name], (command, name)


def test_numbers(run: Run, gcs: Place) -> None:
    kept = keep("manifest GZIP", gcs)
    answer = run("get", kept.url, "0,-1", "-c", "id", *kept.options)
    assert answer.lines == [{"id": 0}, {"id": 29}]


def test_writing(run: Run, gcs: Place) -> None:
    kept = keep("foreign raw", gcs)
    options = kept.options
    assert run("copy", kept.url, gcs.url("a"), "--compression", "gzip", *options).code == 0
    assert run("diff", kept.url, gcs.url("a"), "--json", *options).document["different"] == 0
    assert run("salvage", kept.url, gcs.url("b"), *options).code == 0
    assert run("convert", gcs.url("a"), gcs.url("a.jsonl"), *options).code == 0
    assert len(gcs.get("a.jsonl").splitlines()) == 30
    assert run("index", kept.url, "--as", gcs.url("c"), *options).code == 0
    assert run("clean", gcs.url("a"), *options).out == "nothing to remove\n"
    assert run("doctor", gcs.url("a"), "--json", *options).document["conditional"] is True


def test_what_is_not_there(run: Run, gcs: Place) -> None:
    options = keep("foreign raw", gcs).options
    for url in (gcs.url("none"), "gs://no-such-bucket-here/train"):
        answer = run("count", url, *options)
        assert (answer.code, answer.err.count("\n")) == (3, 1)
        assert url in answer.err
