"""`head`, `tail`, `sample`, `cat` and `get`."""

from __future__ import annotations

import base64
import gzip
import io
import json
import random
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.cli.conftest import RECORDS, ROWS, Kept, Run
from tests.support.framed import framed
from tfio_store.cli.commands.records import as_cell
from tfio_store.cli.output import human_bytes
from tfio_store.tables.rows import parse_numbers


def test_cat(run: Run, kept: Kept) -> None:
    assert run("cat", kept.url, *kept.options).lines == ROWS


def test_head_and_tail(run: Run, kept: Kept) -> None:
    assert run("head", "-n3", kept.url, *kept.options).lines == ROWS[:3]
    assert run("tail", "-n3", kept.url, *kept.options).lines == ROWS[-3:]


def test_more_than_there_are_and_none(run: Run, local: Kept) -> None:
    for command in ("head", "tail", "sample"):
        assert run(command, "-n99", local.url).lines == ROWS
        assert run(command, "-n0", local.url).out == ""


def test_a_sample(run: Run, kept: Kept) -> None:
    first, again, other = (
        run("sample", "-n5", "--seed", seed, kept.url, *kept.options).lines for seed in (1, 1, 2)
    )
    assert first == again != other
    ids = [row["id"] for row in first]
    assert ids == sorted(set(ids))
    assert all(row in ROWS for row in first)


def test_samples_are_fair(run: Run, local: Kept) -> None:
    from tfio_store.tables.rows import Selection

    seen = [0] * len(RECORDS)
    for seed in range(300):
        for batch in Selection(local.url).sample(3, seed):
            for record in batch:
                seen[RECORDS.index(record)] += 1
    assert min(seen) > 5  # of 30 expected
    assert max(seen) < 90


def test_get(run: Run, kept: Kept) -> None:
    answer = run("get", kept.url, "0,2:5,-1", *kept.options)
    if kept.kind == "foreign GZIP":
        assert answer.code == 2
        assert "is one GZIP stream" in answer.err
        return
    assert answer.lines == [ROWS[i] for i in (0, 2, 3, 4, -1)]


def test_numbers_are_those_of_python() -> None:
    chance = random.Random(1)
    for _ in range(300):
        size = chance.randrange(1, 9)
        text = ":".join(
            chance.choice(["", str(chance.randrange(-9, 9))]) for _ in range(chance.choice([2, 3]))
        )
        if not text.endswith(":0") or text.count(":") < 2:
            parts = [int(part) if part else None for part in text.split(":")]
            assert parse_numbers(text, size) == list(range(size))[slice(*parts)]


@pytest.mark.parametrize("text", ["", "x", "1,", "1:2:3:4", "1:2:0", "1.5", "0x1"])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(ValueError, match="neither a record's number nor a range"):
        parse_numbers(text, 5)


def test_a_number_that_no_record_has(run: Run, local: Kept) -> None:
    if local.kind != "foreign GZIP":
        answer = run("get", local.url, "30")
        assert (answer.code, answer.out) == (2, "")
        assert "there is no record 30: the source has 30 records" in answer.err


def test_columns(run: Run, local: Kept) -> None:
    assert run("head", "-n1", "-c", "name, id", local.url).out == '{"name": "row 0", "id": 0}\n'
    answer = run("head", "-c", "nope", local.url)
    assert answer.code == 2
    assert "no feature 'nope'; there are " in answer.err


def test_one_document(run: Run, local: Kept) -> None:
    assert run("head", "-n2", "--json", local.url).document["records"] == ROWS[:2]


def test_raw(capfdbinary: pytest.CaptureFixture[bytes], local: Kept) -> None:
    from tfio_store.cli.entry import main

    assert main(["cat", "--raw", local.url]) == 0
    assert capfdbinary.readouterr().out == b"".join(RECORDS)


def test_records_of_other_shapes_are_shown_whole(run: Run, tmp_path: Path) -> None:
    """Without a manifest nothing is refused, and nothing that only later records have left out."""
    rows: list[dict[str, Any]] = [
        {"x": 1},
        {"x": [1, 2]},
        {"y": "new"},
        {},
        {"x": 3, "y": [b"a", b"b"]},
    ]
    path = tmp_path / "f"
    many: list[dict[str, Any]] = [{"x": i} for i in range(1100)]
    path.write_bytes(framed([tfs.encode_example(row) for row in [*many, *rows]]))
    found = run("tail", "-n5", path).lines
    assert [row["x"] for row in found] == [1, [1, 2], None, None, 3]
    assert [row.get("y") for row in found] == [None, None, ["new"], None, ["a", "b"]]


def test_feature_lists(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "f"
    steps = [[[0.5, 1.0], [2.0]], []]
    records = [tfs.encode_sequence_example({"id": i}, {"frames": s}) for i, s in enumerate(steps)]
    path.write_bytes(framed(records))
    assert run("cat", path).lines == [{"frames": s, "id": i} for i, s in enumerate(steps)]


def test_bytes_and_numbers_that_json_lacks(run: Run, tmp_path: Path) -> None:
    path, image = tmp_path / "f", b"\xff\xd8\xff"
    row = {"image": image, "floats": [0.1, float("nan"), float("inf"), -float("inf")]}
    path.write_bytes(framed([tfs.encode_example(row)]))
    encoded = base64.b64encode(image).decode()
    for how, shown in (
        ("utf8", {"base64": encoded}),
        ("base64", encoded),
        ("size", {"bytes": 3}),
        ("short", {"bytes": 3}),
    ):
        (found,) = run("cat", path, "--bytes", how).lines
        assert found == {"image": shown, "floats": [0.1, "NaN", "Infinity", "-Infinity"]}


def test_classes_have_names(run: Run, tmp_path: Path) -> None:
    schema = tfs.Schema({"animal": tfs.Feature.class_label(["cat", "dog"])})
    tfs.write_table({"animal": ["dog", "cat"]}, str(tmp_path / "train"), schema=schema)
    assert run("cat", tmp_path / "train").lines == [{"animal": "dog"}, {"animal": "cat"}]


def test_what_is_no_example(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(gzip.compress(framed([b"just text"])))
    answer = run("head", path)
    assert answer.code == 5
    assert "record 0 is not a tf.train.Example" in answer.err
    assert answer.err.count("\n") == 1


def test_an_empty_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"")
    for command in (["head", path], ["tail", path], ["cat", path], ["sample", path]):
        assert (run(*command).code, run(*command).out) == (0, "")
    assert json.loads(run("count", path, "--json").out)["records"] == 0


ODD: list[dict[str, Any]] = [
    {"x": [], "y": 1},
    {"y": 1, "z": 2.5},
    {"x": [1], "y": [1, 2]},
    {"x": [1, 2], "never": []},
    {"n": b"a"},
    *[{"x": [i], "y": i} for i in range(1200)],
    {"late": 1},
    {"x": [], "late": [1, 2]},
]


@pytest.mark.parametrize("kind", ["foreign", "learned"])
def test_each_command_shows_the_same_of_a_record(run: Run, tmp_path: Path, kind: str) -> None:
    if kind == "foreign":
        (tmp_path / "t").write_bytes(framed([tfs.encode_example(row) for row in ODD]))
    else:
        with tfs.ShardedWriter(tmp_path / "t", num_shards=1) as writer:
            writer.write_batch(ODD)
    whole = run("cat", tmp_path / "t").lines
    assert [row["x"] for row in whole[:5]] == [[], None, [1], [1, 2], None]
    if kind == "foreign":
        assert ["never" in row for row in whole[3:5]] == [True, False]
        assert "late" not in whole[3]
        assert [row.get("late") for row in whole[-3:]] == [None, [1], [1, 2]]
    for number, row in enumerate(whole[:6] + whole[-2:]):
        at = number if number < 6 else number - 8
        assert run("get", tmp_path / "t", "--", str(at)).lines == [row]
    assert run("head", "-n7", tmp_path / "t").lines == whole[:7]
    assert run("tail", "-n3", tmp_path / "t").lines == whole[-3:]
    for seed in range(5):
        found = run("sample", "-n40", "--seed", seed, tmp_path / "t").lines
        assert all(row in whole for row in found)


def test_cells_tell_nulls_and_images() -> None:
    image = pytest.importorskip("PIL.Image")
    for form in ("JPEG", "PNG", "GIF", "WEBP"):
        file = io.BytesIO()
        image.new("RGB", (96, 64)).save(file, form)
        data = file.getvalue()
        shown = as_cell(data, "utf8")
        assert shown == f"<{form} 96x64, {human_bytes(len(data))}>"
        assert as_cell([data], "utf8") == f"[{shown}]"
        assert as_cell(data, "base64").startswith(base64.b64encode(data[:3]).decode())
    cells = [as_cell(value, "utf8") for value in (None, [], [None], "", b"", b"\xff")]
    assert cells == ["null", "[]", "[null]", "", "", "<1 B>"]


def test_no_screen_of_base64(run: Run, tmp_path: Path) -> None:
    """What a person looks at shows a text as text, and of other bytes their number. `cat`, which
    programs read, loses nothing."""
    path, image = tmp_path / "f", b"\xff\xd8\xff" + bytes(10_000)
    path.write_bytes(framed([tfs.encode_example({"image": [image, b"a text"], "id": 1})]))
    for command in (["head"], ["tail"], ["sample"], ["get", "0"]):
        answer = run(command[0], path, *command[1:])
        assert answer.lines == [{"image": [{"bytes": 10_003}, "a text"], "id": 1}]
        document = run(command[0], path, *command[1:], "--json").document
        assert document["records"] == answer.lines
        (found,) = run(command[0], path, *command[1:], "--bytes", "utf8").lines
        assert base64.b64decode(found["image"][0]["base64"]) == image
    (found,) = run("cat", path).lines
    assert base64.b64decode(found["image"][0]["base64"]) == image
