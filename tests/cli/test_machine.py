"""`doctor` and `completion`."""

from __future__ import annotations

import subprocess

import pytest

import tfio_store as tfs
from tests.cli.conftest import Run
from tests.servers.place import Place


def test_doctor(run: Run) -> None:
    found = run("doctor", "--json").document
    assert found["packages"]["tfio_store"] == tfs.__version__
    assert found["core"] == tfs.backend().core
    assert found["crc32c"] == tfs.backend().crc32c
    assert {"GZIP", "ZLIB"} <= set(found["codecs"])
    assert found["conditional"] is None
    text = run("doctor").out
    assert f"CRC32C by {tfs.backend().crc32c}" in text


def test_doctor_looks_at_a_store(run: Run, s3: Place) -> None:
    import json

    options = ["-o", json.dumps(s3.storage_options)]
    found = run("doctor", s3.url("train"), *options, "--json").document
    assert found["endpoint"] == s3.url("train")
    assert isinstance(found["conditional"], bool)
    nowhere = run("doctor", "s3://no-such-bucket-here/train", *options)
    assert nowhere.code in (0, 3)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(run: Run, shell: str) -> None:
    assert "_TFIO_STORE_COMPLETE" in run("completion", shell).out


def test_bash_takes_the_completion(run: Run) -> None:
    script = run("completion", "bash").out
    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_completion_of_no_shell(run: Run) -> None:
    assert run("completion", "cmd").code == 2
