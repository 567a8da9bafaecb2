"""`stats`, against numpy."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.cli.conftest import ROWS, Kept, Run
from tests.support.framed import framed


def test_every_kind_of_source(run: Run, kept: Kept) -> None:
    found = run("stats", kept.url, *kept.options, "--json").document
    assert (found["records"], found["whole"]) == (30, True)
    scores = [row["score"] for row in ROWS]
    score = found["features"]["score"]
    assert (score["least"], score["most"]) == (min(scores), max(scores))  # type: ignore[type-var]
    assert score["present"] == score["values"] == score["distinct"] == 30
    ids = found["features"]["ids"]
    assert (ids["counts"], ids["values"], ids["most"]) == ([0, 2], 30, 1)
    name = found["features"]["name"]
    assert (name["least"], name["most"], name["looks_like"]) == (5, 6, "text")


def of(tmp_path: Path, rows: list[dict[str, Any]]) -> dict[str, tfs.results.FeatureStats]:
    path = tmp_path / "f"
    path.write_bytes(framed([tfs.encode_example(row) for row in rows]))
    return tfs.stats(str(path)).features


def test_numbers(tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(size=5000).astype(np.float32)
    (found,) = of(tmp_path, [{"x": value} for value in values]).values()
    assert (found.least, found.most) == (values.min(), values.max())
    wanted = np.quantile(values, [0.25, 0.5, 0.75], method="inverted_cdf")
    assert found.quantiles == pytest.approx(wanted.tolist())
    assert found.distinct == len(np.unique(values))


def test_quantiles_of_more_than_is_kept_are_near(tmp_path: Path) -> None:
    (found,) = of(
        tmp_path, [{"x": list(range(i, i + 100))} for i in range(0, 50_000, 100)]
    ).values()
    assert found.values == 50_000
    assert found.distinct is None
    assert found.quantiles == pytest.approx([12_500, 25_000, 37_500], abs=1500)


def test_absent_features_and_nans(tmp_path: Path) -> None:
    found = of(tmp_path, [{"x": 1.5}, {}, {"x": float("nan")}, {"y": 2**62}])
    assert (found["x"].present, found["x"].nans, found["x"].most) == (2, 1, 1.5)
    assert (found["y"].present, found["y"].least) == (1, 2**62)


def test_a_feature_without_values(tmp_path: Path) -> None:
    path = str(tmp_path / "train")
    with tfs.ShardedWriter(path, schema={"x": ("int64", (None,))}) as writer:
        writer.write({"x": []})
    found = tfs.stats(path).features["x"]
    assert (found.present, found.values, found.least, found.quantiles) == (1, 0, None, ())


def test_what_it_looks_like(tmp_path: Path) -> None:
    image_module = pytest.importorskip("PIL.Image")
    memory = io.BytesIO()
    image_module.new("RGB", (64, 48)).save(memory, "JPEG")
    rows = [
        {
            "image": memory.getvalue(),
            "label": i % 10,
            "text": f"number {i}",
            "blob": bytes([255, i]),
            "same": b"x",
            "float": i / 7,
        }
        for i in range(40)
    ]
    found = {name: stats.looks_like for name, stats in of(tmp_path, rows).items()}
    assert found == {
        "image": "JPEG 64x48",
        "label": "10 classes",
        "text": "text",
        "blob": "",
        "same": "one value",
        "float": "",
    }


def test_nulls_and_shapes_of_a_schema(tmp_path: Path) -> None:
    path = str(tmp_path / "train")
    schema = tfs.Schema(
        {
            "n": tfs.Feature("int64", nullable=True),
            "m": ("float32", (2, 3)),
            "s": tfs.Feature("str", (2,), nullable=True),
            "r": tfs.Feature("uint8", (4,), raw=True),
        }
    )
    with tfs.ShardedWriter(path, schema=schema) as writer:
        for i in range(10):
            row: dict[str, Any] = {
                "m": np.full((2, 3), i, np.float32),
                "r": np.arange(4, dtype="u1"),
            }
            writer.write(row | ({"n": i, "s": ["a", "bb"]} if i % 2 else {}))
    found = tfs.stats(path).features
    assert (found["n"].present, found["n"].values, found["n"].least) == (5, 5, 1)
    assert (found["m"].counts, found["m"].values, found["m"].most) == ((6, 6), 60, 9)
    assert (found["s"].present, found["s"].values, found["s"].most) == (5, 10, 2)
    assert (found["r"].values, found["r"].most) == (40, 3)


def test_a_sample(run: Run, tmp_path: Path) -> None:
    path = str(tmp_path / "train")
    tfs.write_table({"x": np.arange(200_000)}, path, num_shards=2)
    part = tfs.stats(path, sample_bytes=1 << 20)
    assert not part.whole
    assert 1 << 20 <= part.nbytes < 6 << 20
    assert "(a sample)" in run("stats", path, "--sample", "1MiB").out
    assert "200,000 records" in run("stats", path, "--sample", "1MiB", "--full").out
    with pytest.raises(ValueError, match="sample_bytes must be at least 1"):
        tfs.stats(path, sample_bytes=0)


def test_feature_lists(tmp_path: Path) -> None:
    path = tmp_path / "f"
    record = tfs.encode_sequence_example({"id": 1}, {"frames": [[0.5, 1.0], [2.0]]})
    path.write_bytes(framed([record, record]))
    found = tfs.stats(str(path)).features
    assert (found["frames"].values, found["frames"].most) == (6, 2.0)
    assert found["frames"].counts == (2, 2)


def test_a_sample_of_compressed_records_is_by_chance(tmp_path: Path) -> None:
    path = str(tmp_path / "train")
    pad = b"0" * 1000
    with tfs.ShardedWriter(path, num_shards=1, compression="GZIP") as writer:
        writer.write_batch(tfs.encode_example({"x": i, "pad": pad}) for i in range(8000))
    found = tfs.stats(path, sample_bytes=1 << 20)
    assert sum(shard.nbytes for shard in tfs.info(path).shards) < 1 << 20
    assert not found.whole
    assert found.features["x"].least != 0


def test_two_dtypes_are_an_error(tmp_path: Path) -> None:
    for name, value in (("a", 1), ("b", 1.5)):
        (tmp_path / name).write_bytes(framed([tfs.encode_example({"x": value})]))
    with pytest.raises(tfs.SchemaError, match=r"record 1: .*'x' holds float32 values"):
        tfs.stats(f"{tmp_path}/*")


def test_times_are_iso_texts(run: Run, tmp_path: Path) -> None:
    path = str(tmp_path / "train")
    times = np.array(["2020-01-01", "2021-01-01", "NaT"], "M8[us]")
    spans = np.array([1500, -1, 86_400_000], "m8[ms]")
    tfs.write_table({"t": times, "d": spans}, path, num_shards=1)
    assert run("stats", path).code == 0
    features = run("stats", path, "--json").document["features"]
    ends = [(features[name]["least"], features[name]["most"]) for name in "td"]
    assert ends == [
        ("2020-01-01T00:00:00.000000", "2021-01-01T00:00:00.000000"),
        ("-PT0.001S", "PT86400S"),
    ]
    row = {"t": None, "d": "PT86400S"}
    assert run("head", path).lines[2] == row
    assert run("head", path, "--json").document["records"][2] == row


def test_a_type_error_from_inside_is_a_fault_of_the_program() -> None:
    from tfio_store.cli.failures import exit_code

    assert exit_code(TypeError("'datetime.timedelta' object is not iterable")) == 70
    assert exit_code(TypeError("unsupported format string passed to NoneType.__format__")) == 70
    assert exit_code(TypeError("feature 'u': row 0 is str, where the schema has uint64")) == 2
    assert exit_code(TypeError("f() got an unexpected keyword argument 'nosuch'")) == 2


def test_features_beyond_the_first_are_left_out_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfio_store.tables.stats._MOST_FEATURES", 3)
    rows = [{"a": 1, "b": 2}, {"a": 3, "c": 4}]
    assert list(of(tmp_path, rows)) == ["a", "b", "c"]
    with pytest.warns(RuntimeWarning, match="there are more than 3 features: .* are left out"):
        found = of(tmp_path, [*rows, {"a": 5, "d": 6}])
    assert list(found) == ["a", "b", "c"]
    assert (found["a"].present, found["a"].most) == (3, 5)


def test_records_with_names_of_their_own_are_decoded_in_small_tables(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of their names times all records would be far more than the file holds."""
    from tfio_store.tables import rows as rows_module, stats as stats_module

    path = tmp_path / "f"
    rows: list[dict[str, Any]] = [{"all": i, f"own{i:03d}": i} for i in range(200)]
    path.write_bytes(framed([tfs.encode_example(row) for row in rows]))
    plain, shown = tfs.stats(str(path)), run("head", path, "-n", "200", "--json").out
    monkeypatch.setattr(rows_module, "_MOST_CELLS", 1000)
    cells = []

    def decoded(batch: Any, schema: Any, **how: Any) -> Any:
        cells.append(len(batch) * len(schema))
        return tfs.decode_examples(batch, schema, **how)

    monkeypatch.setattr(rows_module, "decode_examples", decoded)
    monkeypatch.setattr(stats_module, "decode_examples", decoded)
    assert tfs.stats(str(path)) == plain
    assert run("head", path, "-n", "200", "--json").out == shown
    assert max(cells) <= 1000
    assert sum(cells) >= 2 * 400
    path.write_bytes(framed([*map(tfs.encode_example, rows), tfs.encode_example({"all": 0.5})]))
    with pytest.raises(tfs.SchemaError, match="holds float32 values, and int64 elsewhere") as error:
        tfs.stats(str(path))
    assert error.value.record == 200
