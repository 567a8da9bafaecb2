"""What docs/how_to/watch_a_job.md says of stores that refuse: its words, its table of permissions
and its blocks."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

import tfio_store as tfs
from tests.servers.faulty import azure, faulty, gcs, s3
from tests.servers.lesser_store import Answer, Request
from tests.servers.place import Place
from tests.support.pages import ROOT
from tests.test_how_to import execute, write_points
from tfio_store.cli.entry import main

PAGE = "docs/how_to/watch_a_job.md"


def table_under(heading: str) -> list[list[str]]:
    """The cells of the rows below the table's head."""
    text = (ROOT / PAGE).read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2]
    section = text.partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def quoted(cell: str) -> list[str]:
    return re.findall("`([^`]+)`", cell)


def test_the_blocks_run(bucket: Place) -> None:
    url = write_points(bucket.url("train"))
    other = write_points(bucket.url("train-eval"))
    tfs.write_table({"x": [1]}, url, if_exists="overwrite", num_shards=1)
    names: dict[str, Any] = {"URL": url, "tfs": tfs}
    execute(PAGE, names, "Outages")
    assert names["storage"].retry.outage == 1800
    execute(PAGE, names, "Load")
    assert len(list(names["reader"])) == 1
    execute(PAGE, names, "Delete a dataset")
    assert bucket.names()
    assert not [name for name in bucket.names() if not re.match("_?train-eval[-.]", name)]
    assert tfs.count(other) == 1000


def s3_action(request: Request) -> str:
    parts, method = urlsplit(request.path), request.method
    query = parse_qs(parts.query, keep_blank_values=True)
    if not parts.path.strip("/").partition("/")[2]:  # a bucket
        if "delete" in query:
            return "s3:DeleteObject"
        return "s3:ListBucketMultipartUploads" if "uploads" in query else "s3:ListBucket"
    if method == "DELETE":
        return "s3:AbortMultipartUpload" if "uploadId" in query else "s3:DeleteObject"
    return "s3:GetObject" if method in ("GET", "HEAD") else "s3:PutObject"


def gcs_action(request: Request) -> str:
    path = urlsplit(request.path).path
    if request.method == "GET":
        return f"storage.objects.{'get' if '/o/' in path else 'list'}"
    # of an upload that was begun, a DELETE cancels it
    ends = request.method == "DELETE" and "/upload/" not in path
    return f"storage.objects.{'delete' if ends else 'create'}"


def azure_action(request: Request) -> str:
    query = parse_qs(urlsplit(request.path).query)
    if request.method == "GET" and query.get("comp") == ["list"]:
        return "l"
    return {"GET": "r", "HEAD": "r", "DELETE": "d"}.get(request.method, "w")


ACTIONS: dict[str, tuple[int, Callable[[Request], str], Answer]] = {
    "s3": (1, s3_action, s3(403, "AccessDenied", "Access Denied")),
    "gcs": (2, gcs_action, gcs(403, "forbidden", "it may not")),
    "azure": (3, azure_action, azure(403, "AuthorizationPermissionMismatch", "it may not")),
}
"""The column of each cloud, what a request needs, and how it is refused."""


def read_it(url: str, storage: tfs.Storage) -> None:
    assert len(list(tfs.RecordReader(url, storage=storage))) == 100


def write_it(url: str, storage: tfs.Storage) -> None:
    for how in ("error", "append", "overwrite"):
        write_points(f"{url}-new", 100, storage=storage, if_exists=how)


def job_it(url: str, storage: tfs.Storage) -> None:
    job = tfs.WriteJob(f"{url}-job", storage=storage)
    with job:
        with job.open(0) as writer:
            writer.write(b"record")
        job.commit([writer.result])


IN_PYTHON = {"readers": read_it, "writers": write_it, "WriteJob": job_it}
COMMANDS: dict[str, list[str]] = {
    **{name: [name, "URL"] for name in ("info", "count", "schema", "stats", "head", "verify")},
    **{name: [name, "URL"] for name in ("tail", "sample")},
    "get": ["get", "URL", "0"],
    "report": ["report", "URL", "-o", "HERE/report.html"],
    "cat": ["cat", "--raw", "URL"],
    "diff": ["diff", "URL", "URL"],
    "doctor": ["doctor", "URL"],
    "copy": ["copy", "URL", "URL-copy"],
    "convert": ["convert", "URL", "URL.jsonl"],
    "salvage": ["salvage", "URL", "URL-salvaged"],
    "index": ["index", "URL-00000-of-00004.tfrecord", "--as", "URL-index"],
    "clean": ["clean", "URL", "--yes", "--older-than", "0"],
}


@pytest.mark.parametrize("cloud", ACTIONS)
def test_the_permissions_are_enough(
    cloud: str, request: pytest.FixtureRequest, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """And each of them is asked for, so that none is in the table for nothing."""
    pytest.importorskip("click")
    behind: Place = request.getfixturevalue(cloud)
    write_points(behind.url("train"), 100, storage=behind.storage())
    if cloud == "s3":  # what a killed writer leaves, which `clean` ends
        bucket, shard = behind.root.removeprefix("s3://"), "train-00000-of-00004.tfrecord"
        behind.fs.call_s3("create_multipart_upload", Bucket=bucket, Key=shard)
    column, action, refusal = ACTIONS[cloud]
    given: set[str] = set()
    used: set[str] = set()
    with faulty(behind.endpoint) as proxy:

        def answer(asked: Request) -> Answer | None:
            used.add(action(asked))
            return None if action(asked) in given else refusal

        proxy.how = answer
        place = behind.through(proxy.endpoint, "auto")
        url = place.url("train")
        options = [
            f"--storage-options={name}={text}" for name, text in place.storage_options.items()
        ]
        for row in table_under("Permissions"):
            given |= set(quoted(row[column]))
            in_python = set(IN_PYTHON) & set(re.findall(r"\w+", row[0]))
            for name in sorted({*quoted(row[0]), *in_python}):
                if name in IN_PYTHON:
                    IN_PYTHON[name](url, place.storage())
                    continue
                command = [
                    word.replace("URL", url).replace("HERE", str(tmp_path))
                    for word in COMMANDS[name]
                ]
                code = main([*command, *options])
                assert code == 0, (name, capfd.readouterr().err[-2000:], sorted(given))
        assert used == given
