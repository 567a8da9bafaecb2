"""Small kindnesses of the public API: what objects say of themselves, and names for completion."""

from __future__ import annotations

import inspect
import pickle
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.support.framed import framed
from tests.support.started import python


@pytest.fixture
def url(tmp_path: Path) -> str:
    found = f"{tmp_path}/train"
    tfs.write_table({"x": [1, 2, 3]}, found, num_shards=2, compression="GZIP")
    return found


SHOWN: dict[str, tuple[Callable[[str], Any], str]] = {
    "RecordReader": (
        tfs.RecordReader,
        "of 3 records in 2 shards, {0}-00000-of-00002.tfrecord, epoch 0",
    ),
    "TFRecordWriter": (lambda url: tfs.TFRecordWriter(url + "-x"), "of {0}-x, open"),
    "ShardedWriter": (lambda url: tfs.ShardedWriter(url + "-y"), "of {0}-y, open"),
    "DatasetInfo": (tfs.info, "of 3 records in 2 shards, {1} bytes, GZIP, indexed"),
    "Report": (tfs.report, "of {0}: 3 records looked at, 0 findings"),
    "WriteJob": (lambda url: tfs.WriteJob(url + "-z", num_shards=2), "of {0}-z, 2 shards, open"),
    "DatasetManifest": (
        lambda url: tfs.write_table({"x": [1]}, url + "-w"),
        "of 1 record in 1 shard, 30 bytes",
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_what_objects_say_of_themselves(url: str, name: str) -> None:
    make, said = SHOWN[name]
    made = make(url)
    assert repr(made) == f"<{name} {said.format(url, tfs.info(url).nbytes)}>"
    getattr(made, "abort", lambda: None)()


@pytest.mark.tensorflow
def test_every_public_class_says_what_it_is() -> None:
    for name in tfs.__all__:
        if name not in ("TFRecordDataset",):
            each = getattr(tfs, name)
            if inspect.isclass(each):
                assert each.__repr__ is not object.__repr__, name


def test_how_writers_ended_is_shown(tmp_path: Path) -> None:
    with tfs.TFRecordWriter(tmp_path / "a") as writer:
        writer.write(b"1")
    assert repr(writer) == f"<TFRecordWriter of {tmp_path}/a, closed>"
    with open(tmp_path / "b", "wb") as file, tfs.TFRecordWriter(file) as other:
        assert repr(other) == "<TFRecordWriter of a file object, open>"
    reader = tfs.RecordReader(str(tmp_path / "a"))
    assert repr(reader) == f"<RecordReader of 1 shard, {tmp_path}/a, epoch 0>"
    reader.close()
    assert repr(reader) == f"<RecordReader of 1 shard, {tmp_path}/a, closed>"


def test_secrets_are_not_shown() -> None:
    writer = tfs.TFRecordWriter("memory://user:secret@host/a?token=secret")
    assert "secret" not in repr(writer)
    writer.abort()


def test_a_source_tells_names_sizes_and_contents(url: str, tmp_path: Path) -> None:
    files = sorted(tmp_path.glob("train-*"))
    told = b"".join(b"%s\0%d\0" % (file.name.encode(), file.stat().st_size) for file in files)
    held = repr([tfs.crc32c(file.read_bytes()) for file in files]).encode()
    digest = f"2-{zlib.crc32(told):08x}-{zlib.crc32(held):08x}"
    said = f"3 records in 2 shards, train-00000-of-00002.tfrecord, {digest}"
    assert repr(tfs.RecordSource(url)) == f"<RecordSource of {said}>"


def test_one_record_is_not_records(tmp_path: Path) -> None:
    tfs.write_table({"x": [1]}, tmp_path / "one", num_shards=1)
    tfs.write_table({"x": list(range(1234))}, tmp_path / "many", num_shards=1)
    assert "<RecordSource of 1 record in 1 shard, " in repr(tfs.RecordSource(tmp_path / "one"))
    assert "<RecordReader of 1 record in 1 shard, " in repr(tfs.RecordReader(tmp_path / "one"))
    assert "<RecordSource of 1,234 records in 1 shard" in repr(tfs.RecordSource(tmp_path / "many"))


def test_sources_that_differ_say_so(url: str, tmp_path: Path) -> None:
    """Grain compares what sources say of themselves when it restores a state."""
    tfs.write_table({"x": [1, 2, 3]}, url + "2", num_shards=2)
    (tmp_path / "other").mkdir()
    tfs.write_table({"x": [1, 2, 300]}, f"{tmp_path}/other/train", num_shards=2, compression="GZIP")
    files = sorted(map(str, tmp_path.glob("train-*")))
    sources = [url, url + "2", f"{tmp_path}/other/train", files, files[::-1], files[:1], files * 2]
    assert len({repr(tfs.RecordSource(source)) for source in sources}) == len(sources) - 1
    parts: list[Any] = [tfs.slice(url, span) for span in (":2", "1:", "1:2", "2:3")]
    assert len({repr(tfs.RecordSource(part)) for part in [url, *parts]}) == 5
    assert repr(tfs.RecordSource(files)) == repr(tfs.RecordSource(url))


def test_a_source_says_the_same_in_another_folder_and_process(url: str, tmp_path: Path) -> None:
    """As its pickle does, and as a copy of the files does on another machine."""
    source = tfs.RecordSource(url)
    shutil.copytree(tmp_path, tmp_path / "mounted" / "elsewhere")
    program = "import sys, tfio_store as t; print(repr(t.RecordSource(sys.argv[1])))"
    elsewhere = f"{tmp_path}/mounted/elsewhere/train"
    answer = python(program, elsewhere, check=True)
    assert answer.stdout.strip() == repr(source) == repr(pickle.loads(pickle.dumps(source)))


def test_without_a_number_or_limit_shards_take_256_mib(tmp_path: Path) -> None:
    with tfs.ShardedWriter(f"{tmp_path}/train") as writer:
        writer.write(b"1")
    assert [shard.name for shard in writer.manifest.shards] == ["train-00000.tfrecord"]
    with pytest.raises(ValueError, match="pass either num_shards"):
        tfs.ShardedWriter(f"{tmp_path}/other", num_shards=2, max_shard_bytes=5)


def test_completion_offers_public_names_only() -> None:
    program = "import tfio_store as t; print(*dir(t))"
    answer = python(program, check=True)
    assert set(answer.stdout.split()) == {
        *tfs.__all__,
        "__version__",
        "errors",
        "results",
        "storage",
    }


def test_a_reader_tells_its_order(url: str) -> None:
    """Who comes from tf.data may take the seed for the size of a buffer."""
    reader = tfs.RecordReader(url).shuffle(1000).shard(0, 2)
    assert "shuffle(seed=1000, window=16).shard(0, 2), epoch 0>" in repr(reader)


def test_info_of_a_file_that_nobody_has_counted(tmp_path: Path) -> None:
    with tfs.TFRecordWriter(tmp_path / "a") as writer:
        writer.write(b"one")
    assert repr(tfs.info(tmp_path / "a")) == "<DatasetInfo of 1 shard, 19 bytes, not indexed>"


def test_no_name_sends_orders_to_a_terminal(tmp_path: Path) -> None:
    """Names of files and features are whatever somebody wrote."""
    url = tmp_path / "a\x1b]0;owned\x07"
    sound = framed([tfs.encode_example({"e\x1b]0;m\x07": 1})])
    url.write_bytes(sound)
    texts = [str(tfs.infer_schema(url)), repr(tfs.RecordReader(url))]
    url.write_bytes(sound + b"junk" * 9)
    texts.append(str(tfs.verify(url)))
    with pytest.raises(tfs.DataLossError) as caught:
        list(tfs.RecordReader(url))
    with pytest.warns(tfs.errors.DataLossWarning) as warned:
        list(tfs.RecordReader(url, on_corrupt="skip"))
    texts += [str(caught.value), *(str(each.message) for each in warned)]
    for text in texts:
        assert not {"\x1b", "\x07"} & set(text), text
        assert "\N{REPLACEMENT CHARACTER}" in text or "\\x1b" in text
