"""Arguments of Beam's transforms: what is refused when a pipeline is made, templates' parameters,
and what a pipeline shows of credentials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs

pytest.importorskip("apache_beam", reason="Beam is not installed")

import apache_beam as beam
from apache_beam.coders import Coder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.options.value_provider import RuntimeValueProvider, StaticValueProvider
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.display import DisplayData

from tests.engines.test_beam import pipeline
from tfio_store.beam import ReadAllFromTFRecord, ReadFromTFRecord, WriteToTFRecord


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"on_corrupt": "Raise"}, 'on_corrupt= takes "raise", "skip" or a function'),
        ({"memory_budget": -1}, "memory_budget must be a positive integer"),
        ({"compression_type": 3}, "compression_type=3: TFRecord files have one of"),
        (
            {"batched": True, "columns": "xy"},
            r"columns= .* not one: pass \['xy'\]",
        ),
        ({"batched": True, "schema": {"x": "int65"}}, "dtype must be one of"),
    ],
)
def test_what_a_read_refuses_before_it_runs(arguments: Any, words: str) -> None:
    for make in (ReadAllFromTFRecord, lambda **how: ReadFromTFRecord("t", validate=False, **how)):
        with pytest.raises((TypeError, ValueError), match=words):
            make(**arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"file_path_prefix": ""}, "file_path_prefix: pass a path or URL"),
        ({"file_path_prefix": 3}, "file_path_prefix must be a path or URL, not int"),
        ({"if_exists": "replace"}, "if_exists must be"),
        ({"keep_replaced": -1}, "keep_replaced must be seconds"),
        ({"names": "short"}, "names must be"),
        ({"max_shard_bytes": 0}, "max_shard_bytes must be a positive integer"),
        ({"schema": {"x": "int65"}}, "dtype must be one of"),
        ({"compression_type": "bzip2"}, "compression_type='bzip2': TFRecord files have one of"),
    ],
)
def test_what_a_write_refuses_before_it_runs(arguments: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        WriteToTFRecord(**{"file_path_prefix": "t", **arguments})


def test_an_element_that_is_no_source() -> None:
    with pytest.raises(Exception, match=r"a source is a path or URL, .* not 3"), pipeline() as p:
        _ = p | beam.Create([3]) | ReadAllFromTFRecord()


class Template(PipelineOptions):
    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_value_provider_argument("--tfio_source")


def test_a_parameter_of_a_template(tmp_path: Path) -> None:
    url = str(tmp_path / "t")
    with pipeline() as p:
        written = p | beam.Create([b"x"]) | WriteToTFRecord(StaticValueProvider(str, url))
        assert_that(written, equal_to([url]))
    unknown = PipelineOptions([]).view_as(Template).tfio_source
    assert isinstance(unknown, RuntimeValueProvider)
    ReadFromTFRecord(unknown)  # not asked before the pipeline runs
    with pipeline() as p:
        assert_that(p | ReadFromTFRecord(StaticValueProvider(str, url)), equal_to([b"x"]))
    with pytest.raises(FileNotFoundError):
        ReadFromTFRecord(StaticValueProvider(str, str(tmp_path / "other")))


class Upper(Coder):
    """It tells no type."""

    def encode(self, value: str) -> bytes:
        return value.lower().encode()

    def decode(self, encoded: bytes) -> str:
        return encoded.decode().upper()


def test_a_coder_of_the_users(tmp_path: Path) -> None:
    url = str(tmp_path / "t")
    with pipeline() as p:
        written = p | beam.Create(["ONE"]) | WriteToTFRecord(url, coder=Upper())
        named = written | ReadAllFromTFRecord(coder=Upper(), with_filename=True)
        assert_that(named | beam.Values(), equal_to(["ONE"]))
    assert list(tfs.RecordReader(url)) == [b"one"]
    with pipeline() as p:
        assert_that(p | ReadFromTFRecord(url, coder=Upper()), equal_to(["ONE"]))


def test_several_datasets_of_one_schema(tmp_path: Path) -> None:
    urls = [str(tmp_path / name) for name in ("one", "two")]
    for url in urls:
        tfs.write_table({"x": [1, 2], "y": [3, 4]}, url)
    with pipeline() as p:
        batches = p | ReadFromTFRecord(urls, batched=True, columns=["x"])
        numbers = batches | beam.FlatMap(lambda batch: batch.to_pydict()["x"])
        assert_that(numbers, equal_to([1, 2, 1, 2]))


def test_no_tables_and_a_schema(tmp_path: Path) -> None:
    url = str(tmp_path / "t")
    schema: Any = {"x": ("float32", (3,)), "text": "str"}
    for mode in ("error", "overwrite"):
        with pipeline() as p:
            empty = p | beam.Create([])
            _ = empty | WriteToTFRecord(url, batched=True, schema=schema, if_exists=mode)
        assert tfs.infer_schema(url)["x"].shape == (3,)
        assert tfs.count(url) == 0


class _Shown(PipelineVisitor):
    """All that a pipeline shows of its transforms."""

    def __init__(self) -> None:
        self.text = ""

    def visit_transform(self, node: AppliedPTransform) -> None:
        self.text += node.full_label
        if node.transform is not None:
            items = DisplayData.create_from(node.transform).items
            self.text += f"{node.transform!r}" + "".join(str(item.get_dict()) for item in items)

    enter_composite_transform = visit_transform


def test_credentials_are_not_shown() -> None:
    where: Any = {"storage_options": {"secret": "hush"}}
    p = pipeline()
    _ = p | ReadFromTFRecord("s3://b/t", validate=False, **where)
    write = WriteToTFRecord("s3://user:hush@b/t", **where)
    _ = p | beam.Create([b"x"]) | write
    shown = _Shown()
    p.visit(shown)
    assert "WriteToTFRecord/Begin" in shown.text
    assert "hush" not in shown.text
