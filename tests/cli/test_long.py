"""Commands on a dataset of 10,240 shards read little of its list, and count without reading it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.servers.place import Place
from tests.support.counted import Counted
from tests.support.million import BLOCKS, write_many
from tfio_store.dataset.shard_page import PAGE_SHARDS
from tfio_store.storage import open_store

PAGES = 5
SHARDS = PAGES * PAGE_SHARDS


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_many(tmp_path_factory.mktemp("long"), PAGES)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(open_store("/")[0], monkeypatch)


def test_count(run: Run, url: str, asked: Counted) -> None:
    assert run("count", url).out == f"{SHARDS * BLOCKS}\n"
    assert asked.ranges == []


def test_count_on_s3_takes_two_requests_one_after_the_other(
    run: Run, url: str, s3: Place, shaped: Callable[..., Any]
) -> None:
    manifest = Path(url).parent / "_train.manifest.json"
    s3.put("_train.manifest.json", manifest.read_bytes())
    distant = shaped(s3.endpoint, ttfb_ms=400)
    options = json.dumps({**s3.storage_options, "endpoint_url": distant.endpoint})
    assert run("count", s3.url("train"), "-o", options).out == f"{SHARDS * BLOCKS}\n"
    rounds, end = 0, 0.0
    for request in sorted(distant.timeline(), key=lambda one: one.answered):
        if request.begin >= end:
            rounds, end = rounds + 1, request.answered
    assert 1 <= rounds <= 2


def test_info_and_counts_of_each_read_the_pages_alone(run: Run, url: str, asked: Counted) -> None:
    found = run("info", url, "--json").document
    assert (found["num_shards"], found["records"]) == (SHARDS, SHARDS * BLOCKS)
    assert found["indexed"] is True
    assert len(asked.ranges) <= PAGES
    asked.clear()
    lines = run("count", "--per-shard", url).out.splitlines()
    assert len(lines) == SHARDS
    assert {line.split("\t")[0] for line in lines} == {str(BLOCKS)}
    assert len(asked.ranges) <= PAGES


def test_a_few_records(run: Run, url: str, asked: Counted) -> None:
    assert run("head", "-n", 2, "--raw", url).out == "00000001"
    assert run("tail", "-n", 1, "--raw", url).out == f"{BLOCKS - 1:04d}"
    assert run("get", url, "1002", "--raw").out == "0002"
    assert asked.nbytes < 64 << 20
