"""Datasets whose URLs name an account or a host: every step goes to that one and to no other."""

from __future__ import annotations

import itertools
import pickle
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers import azurite, hosted  # noqa: F401

OURS = [b"ours %d" % i for i in range(100)]
THEIRS = [b"theirs %d" % i for i in range(100)]
NAMES = itertools.count()


class Two:
    """Two places with the same names in them: `ours` is meant, `theirs` is what the options and the
    environment would find."""

    def __init__(self, ours: str, theirs: str, options: dict[str, Any]) -> None:
        self.ours, self.theirs = ours, theirs
        self.options: dict[str, Any] = {"storage_options": options}

    def write(self, **how: Any) -> None:
        """A dataset and a file in each."""
        for root, records in ((self.ours, OURS), (self.theirs, THEIRS)):
            with tfs.ShardedWriter(f"{root}/train", **how, **self.options) as writer:
                writer.write_batch(records)
            with tfs.TFRecordWriter(f"{root}/a.tfrecord", **self.options) as file:
                file.write_batch(records)

    def read(self, name: str) -> list[bytes]:
        return sorted(tfs.RecordReader(f"{self.ours}/{name}", **self.options))


@pytest.fixture
def hosts(tmp_path: Path) -> Two:
    return Two("hosted://user:secret@one/dir", "hosted://two/dir", {"hosts": str(tmp_path)})


@pytest.fixture(scope="module")
def accounts() -> Iterator[dict[str, str]]:
    """Connection strings of two accounts of an Azure server, by name."""
    pytest.importorskip("adlfs")
    if azurite.program() is None:
        pytest.skip("Azurite is not installed: make servers")
    names = [f"{name}{uuid.uuid4().hex[:12]}" for name in ("ours", "theirs")]
    with azurite.azurite_accounts(names) as strings:
        yield strings


@pytest.fixture
def azure(accounts: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Two:
    """The accounts by their URLs, whose hosts are found on this machine. The environment names the
    other account."""
    import adlfs

    class Local(adlfs.AzureBlobFileSystem):
        def __init__(self, account_name: str | None = None, **options: Any) -> None:
            found = accounts[account_name or theirs]
            super().__init__(connection_string=found, **options)

    ours, theirs = accounts
    monkeypatch.setattr("adlfs.AzureBlobFileSystem", Local)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", theirs)
    box = f"box{next(NAMES)}"
    for name in accounts:
        Local(name, skip_instance_cache=True).mkdir(box)
    return Two(
        f"az://{box}@{ours}.dfs.core.windows.net",
        f"abfss://{box}@{theirs}.dfs.core.windows.net",
        {},
    )


@pytest.fixture(params=["hosts", "azure"])
def two(request: pytest.FixtureRequest) -> Two:
    found: Two = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("compression", [None, "GZIP"])
@pytest.mark.parametrize(
    "name", ["train", "train-*", "train-00000-of-00001.tfrecord", "a.tfrecord", "*.tfrecord"]
)
def test_the_named_place_is_read(two: Two, name: str, compression: str | None) -> None:
    two.write(num_shards=1, compression=compression)
    expected = sorted(OURS * 2) if name == "*.tfrecord" else sorted(OURS)
    assert two.read(name) == expected


def test_a_list_reads_both(two: Two) -> None:
    two.write(num_shards=2)
    reader = tfs.RecordReader([f"{two.ours}/train", f"{two.theirs}/train"], **two.options)
    assert list(reader) == [*_in_turns(OURS), *_in_turns(THEIRS)]


def _in_turns(records: list[bytes]) -> list[bytes]:
    return [*records[::2], *records[1::2]]


def test_what_is_pickled_opens_the_same_place(two: Two) -> None:
    two.write(num_shards=1)
    source = tfs.RecordSource(f"{two.ours}/train", **two.options)
    assert pickle.loads(pickle.dumps(source))[7] == OURS[7]
    reader = tfs.RecordReader(f"{two.ours}/a.tfrecord", **two.options)
    assert list(pickle.loads(pickle.dumps(reader))) == OURS


def test_blocks_are_known_of_named_shards(two: Two) -> None:
    two.write(num_shards=1, compression="GZIP")
    assert len(tfs.RecordSource(f"{two.ours}/train-00000-of-00001.tfrecord", **two.options)) == 100


def test_appending_overwriting_and_cleaning_stay_there(two: Two) -> None:
    two.write(num_shards=1)
    for if_exists in ("append", "overwrite"):
        with tfs.ShardedWriter(
            f"{two.ours}/train", num_shards=1, if_exists=if_exists, **two.options
        ) as writer:
            writer.write(b"more")
        before = sorted([*OURS, b"more"]) if if_exists == "append" else [b"more"]
        assert two.read("train") == before
    tfs.clean(f"{two.ours}/train", older_than=0, **two.options)
    assert two.read("train") == [b"more"]
    assert sorted(tfs.RecordReader(f"{two.theirs}/train", **two.options)) == sorted(THEIRS)


def test_errors_name_the_place_and_no_password(two: Two) -> None:
    two.write(num_shards=1)
    place = two.ours.replace("user:secret@", "")
    with pytest.raises(FileNotFoundError, match=f"{place}/none") as caught:
        tfs.RecordReader(f"{two.ours}/none", **two.options)
    assert "secret" not in str(caught.value)
    reader = tfs.RecordReader(f"{two.ours}/train", **two.options)
    assert place in repr(reader)
    assert "secret" not in repr(reader)


@pytest.mark.tensorflow
def test_tensorflow_reads_the_named_place(two: Two) -> None:
    two.write(num_shards=1)
    for name in ("train", "a.tfrecord"):
        dataset = tfs.TFRecordDataset(f"{two.ours}/{name}", **two.options)
        assert [each.numpy() for each in dataset] == OURS
    files = tfs.list_files(f"{two.ours}/*.tfrecord", shuffle=False, **two.options)
    names = [name.decode() for name in files.as_numpy_iterator()]
    assert list(tfs.RecordReader(names, **two.options)) == OURS * 2
