"""`doctor` and `completion`."""

from __future__ import annotations

import subprocess
from importlib.util import find_spec

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
    assert found["crc32c_agrees"] is True
    assert (found["there"], found["conditional"], found["client"]) == (None, None, None)
    text = run("doctor").out
    assert f"CRC32C by {tfs.backend().crc32c}" in text


def test_doctor_looks_at_a_store(run: Run, s3: Place) -> None:
    import json

    options = ["-o", json.dumps(s3.storage_options)]
    found = run("doctor", s3.url("train"), *options, "--json").document
    assert found["endpoint"] == s3.url("train")
    assert isinstance(found["conditional"], bool)
    assert found["client"] == ("fsspec" if find_spec("obstore") is None else "obstore")
    assert run("doctor", s3.url("train"), *options, "--backend", "fsspec").out.endswith(
        "read by        fsspec\n"
    )
    assert found["there"] is False
    tfs.write_table({"x": [1]}, s3.url("train"), storage_options=s3.storage_options)
    assert run("doctor", s3.url("train"), *options, "--json").document["there"] is True
    assert run("doctor", s3.root, *options, "--json").document["there"] is True
    nowhere = run("doctor", "s3://no-such-bucket-here/train", *options)
    assert nowhere.code == 0
    assert "nothing is there; or there is no such bucket" in nowhere.out


def test_doctor_meets_a_kernel_that_is_wrong(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfio_store.maintain.doctor.crc32c", lambda run: len(run) & 1)
    assert run("doctor", "--json").document["crc32c_agrees"] is False
    found = run("doctor")
    assert found.code == 1
    assert "set TFIO_STORE_CORE=pure" in found.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(run: Run, shell: str) -> None:
    assert "_TFIO_STORE_COMPLETE" in run("completion", shell).out


def test_bash_takes_the_completion(run: Run) -> None:
    script = run("completion", "bash").out
    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_completion_of_no_shell(run: Run) -> None:
    assert run("completion", "cmd").code == 2
