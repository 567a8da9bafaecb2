"""`report`: the page where it is wanted, the facts as JSON, and the exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

import tfio_store as tfs
from tests.cli.conftest import RECORDS, Kept, Run
from tests.support.framed import framed
from tfio_store.show.page import FIRST_LINES


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    tfs.write_table({"x": [1, 2, 3]}, "train", num_shards=2)
    return "train"


@pytest.fixture
def damaged(tmp_path: Path) -> str:
    data = framed(RECORDS)
    path = tmp_path / "damaged.tfrecord"
    path.write_bytes(data[:200] + b"?" + data[201:])
    return str(path)


def test_every_kind_of_source(run: Run, kept: Kept, tmp_path: Path) -> None:
    options = ["--storage-options", *kept.options[1:]] if kept.options else []
    target = tmp_path / "here.html"
    found = run("report", kept.url, *options, "-o", target, "--json").document
    assert found["written"] == str(target)
    assert found["scope"]["records"] == 30
    assert {feature["name"] for feature in found["features"]} == {"id", "name", "score", "ids"}
    assert target.read_bytes().startswith(FIRST_LINES)


def test_the_page_lies_beside_the_source(run: Run, kept: Kept) -> None:
    options = ["--storage-options", *kept.options[1:]] if kept.options else []
    target = kept.place.url("reports/of.html")
    for _ in range(2):  # the second replaces the first
        assert run("report", kept.url, *options, "-o", target).code == 0
    assert kept.place.get("reports/of.html").startswith(FIRST_LINES)


def test_a_name_by_itself(run: Run, train: str) -> None:
    answer = run("report", train)
    assert answer.code == 0
    assert answer.out.splitlines()[-1].endswith("/train-report.html: 3 of 3 records looked at")
    assert Path("train-report.html").read_bytes().startswith(FIRST_LINES)
    Path("a[1] b.tfrecord").write_bytes(framed(RECORDS))
    assert run("report", "a[[]1] b.tfrecord").code == 0
    assert sorted(Path().glob("a*.html")) == [Path("a_1_b-report.html")]


def test_the_page_on_standard_output(run: Run, train: str) -> None:
    answer = run("report", train, "-o", "-")
    assert answer.code == 0
    assert answer.out.encode().startswith(FIRST_LINES)
    assert answer.out.endswith("</html>\n")
    assert not list(Path().glob("*.html"))
    assert run("report", train, "-o", "-", "--json").code == 2


def test_json_writes_no_page_and_holds_no_media(run: Run, train: str) -> None:
    found = run("report", train, "--json").document
    assert found["written"] is None
    assert not list(Path().glob("*.html"))
    assert all("data" not in item for item in found["items"])


def test_nothing_else_is_replaced(run: Run, train: str) -> None:
    shard = next(Path().glob("train-*.tfrecord"))
    before = shard.read_bytes()
    answer = run("report", train, "-o", shard)
    assert answer.code == 2
    assert "exists, and is no report" in answer.err
    assert shard.read_bytes() == before


def test_findings_and_exit_codes(run: Run, damaged: str, train: str) -> None:
    usual = run("report", damaged, "-o", "d.html")
    assert usual.code == 0
    assert usual.out.startswith("error: 1 damaged region")
    for level in ("error", "warning"):
        assert run("report", damaged, "-o", "d.html", "--fail-on", level).code == 1
        assert run("report", train, "-o", "t.html", "--fail-on", level).code == 0
    assert run("report", damaged, "--fail-on", "error", "--json").code == 1


def test_how_much_is_looked_at(run: Run, train: str) -> None:
    scope = run("report", train, "--json", "--blocks", "1", "--seed", "5").document["scope"]
    assert (scope["blocks"], scope["of_blocks"], scope["seed"], scope["full"]) == (1, 2, 5, False)
    assert run("report", train, "--json", "--full").document["scope"]["full"]
    assert run("report", train, "--blocks", "0").code == 2


def test_what_cannot_be_looked_at(run: Run, tmp_path: Path) -> None:
    assert run("report", tmp_path / "none").code == 3


def test_storage_options_have_their_long_name_only(run: Run, train: str) -> None:
    text = run("report", "--help").out
    assert "-o, --output" in text
    assert "-o, --storage-options" not in text
