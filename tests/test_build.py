"""Builds where the compiler fails: what can't be compiled is left out, and Python does its work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytest.importorskip("Cython")
pytest.importorskip("setuptools")

TREE = Path(__file__).parent.parent
MODULES = {
    "tfio_store.records._core",
    "tfio_store.example._example",
    "tfio_store.example._resize",
    "tfio_store.loader._pack",
    "tfio_store.tf._tensorflow",
}

STATIC = {
    str(path.relative_to(TREE))
    for path in (TREE / "tfio_store/show/static").rglob("*")
    if path.is_file()
}
"""The scripts and styles of pages, and the licences of those by others."""

ROUND_TRIP = """
import warnings
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    import tfio_store as tfs
    tfs.backend()
with tfs.ShardedWriter("data/train", num_shards=2, compression="GZIP") as writer:
    for i in range(100):
        writer.write({"id": i, "name": f"record {i}"})
records = list(tfs.RecordReader("data/train"))
ids = tfs.decode_examples(records, {"id": "int64"})["id"]
assert sorted(ids.tolist()) == list(range(100)), ids
assert tfs.verify("data/train").ok
print(tfs.__file__, tfs.backend().core, tfs.backend().example, len(told))
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what builds, in which nothing was built."""
    copy = tmp_path_factory.mktemp("build") / "tree"
    copy.mkdir()
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(TREE / name, copy)
    for folder in ("ext", "tfio_store"):
        shutil.copytree(
            TREE / folder, copy / folder, ignore=shutil.ignore_patterns("_*.[ch]", "*.so", "*.pyc")
        )
    return copy


@pytest.fixture
def compiler(tmp_path: Path) -> Path:
    """A compiler that fails where REFUSED is in its arguments, and does not take long elsewhere."""
    path = tmp_path / "cc"
    path.write_text(
        '#!/bin/sh\ncase "$*" in *"$REFUSED"*) exit 1;; esac\nexec cc "$@" -O0\n', encoding="utf-8"
    )
    path.chmod(0o755)
    return path


def build(tree: Path, target: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "setup.py", "-q", "build", "--build-base", str(target / "base")]
    return subprocess.run(
        [*command, "--build-lib", str(target)],
        cwd=tree,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def run(program: str, target: Path) -> str:
    """What the program prints, which finds the package in ``target``."""
    paths = [str(target), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    environment.pop("TFIO_STORE_CORE", None)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=target,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_without_a_compiler_all_is_python(tree: Path, tmp_path: Path) -> None:
    done = build(tree, tmp_path, CC="/bin/false")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr.count("many times slower") == 1
    assert all(name in done.stderr for name in MODULES)
    assert list(tmp_path.rglob("*.so")) == []
    package = tmp_path / "tfio_store" / "__init__.py"
    assert run(ROUND_TRIP, tmp_path).split() == [str(package), "pure", "pure", "1"]
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")} >= STATIC


@pytest.mark.long
def test_one_module_fails_alone(tree: Path, tmp_path: Path, compiler: Path) -> None:
    refused = "tfio_store.example._example"
    done = build(tree, tmp_path, CC=str(compiler), REFUSED="ext/example/_example.c")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr.count("many times slower") == 1
    built = {
        ".".join(path.relative_to(tmp_path).parts).partition(".cpython")[0]
        for path in (tmp_path / "tfio_store").rglob("*.so")
    }
    assert built == MODULES - {refused}
    assert run(ROUND_TRIP, tmp_path).split()[1:] == ["compiled", "pure", "1"]


@pytest.mark.long
def test_compiled_by_choice_fails_the_build(tree: Path, tmp_path: Path) -> None:
    assert build(tree, tmp_path, CC="/bin/false", TFIO_STORE_CORE="compiled").returncode != 0


@pytest.mark.long
@pytest.mark.tensorflow
def test_without_the_bridge_tensorflow_reads_and_filesystems_say_why(
    tree: Path, tmp_path: Path
) -> None:
    build(tree, tmp_path, CC="/bin/false")
    program = """
import warnings
warnings.simplefilter("ignore")
import tfio_store as tfs
with tfs.TFRecordWriter("one.tfrecord") as writer:
    writer.write(b"a record")
print([bytes(record) for record in tfs.TFRecordDataset("one.tfrecord").as_numpy_iterator()])
try:
    tfs.register_filesystem("memory")
except ImportError as error:
    print(error)
"""
    records, refusal = run(program, tmp_path).splitlines()
    assert records == "[b'a record']"
    assert "install again where there is a C compiler" in refusal


@pytest.mark.long
def test_a_source_distribution_holds_every_source(tree: Path, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "setup.py", "-q", "sdist", "--dist-dir", str(tmp_path)],
        cwd=tree,
        check=True,
        capture_output=True,
    )
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    sources = {
        str(path.relative_to(TREE))
        for path in (TREE / "ext").rglob("*.*")
        if not path.name.startswith("_") or path.suffix not in (".c", ".h")
    }
    assert sources | STATIC <= held
