"""Which core runs, and that it says so."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import tfio_store
from tfio_store.records import framing

# What a machine without the extension looks like to Python.
NO_EXTENSION = "import sys; sys.modules['tfio_store.records._core'] = None\n"


def run(code: str, core: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {name: text for name, text in os.environ.items() if name != "TFIO_STORE_CORE"}
    if core is not None:
        environment["TFIO_STORE_CORE"] = core
    # google-crc32c has no wheel for each Python, and warns of its own Python code
    quiet = "ignore:As the c extension couldn't be imported:RuntimeWarning"
    return subprocess.run(
        [sys.executable, "-W", quiet, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_backend_names_core_and_kernel():
    core, crc32c = tfio_store.backend()
    assert core in ("compiled", "pure")
    assert tfio_store.backend().example in ("compiled", "pure")
    assert crc32c == framing.crc_backend()
    assert (core == "pure") == (crc32c == "google-crc32c")


def test_without_the_extension_python_does_it_and_warns_once():
    done = run(
        f"{NO_EXTENSION}import tfio_store, tfio_store.records.framing, importlib\n"
        "importlib.import_module('tfio_store.records.framing')\n"
        "print(*tfio_store.backend(), tfio_store.crc32c(b'123456789') == 0xE3069283)"
    )
    assert done.stdout.split() == ["pure", "google-crc32c", "True"]
    assert done.stderr.count("RuntimeWarning") == 1
    assert "without its compiled core" in done.stderr


def test_each_module_stands_in_alone():
    done = run(
        "import sys; sys.modules['tfio_store.example._example'] = None\n"
        "import tfio_store; print(tfio_store.backend().core, tfio_store.backend().example)\n"
        "print(tfio_store.encode_example({'x': 1}).hex())"
    )
    assert done.stdout.split() == ["compiled", "pure", "0a0c0a0a0a017812051a030a0101"]
    assert done.stderr.count("RuntimeWarning") == 1
    assert "without its compiled example" in done.stderr


def test_pure_by_choice_is_silent():
    done = run("import tfio_store; print(tfio_store.backend().core)", core="pure")
    assert (done.stdout.strip(), done.stderr) == ("pure", "")


def test_compiled_by_choice_is_not_replaced():
    done = run(f"{NO_EXTENSION}import tfio_store; tfio_store.backend()", core="compiled")
    assert done.returncode != 0
    assert "ImportError" in done.stderr or "ModuleNotFoundError" in done.stderr


def test_an_unknown_choice_is_an_error():
    done = run("import tfio_store; tfio_store.backend()", core="fast")
    assert "TFIO_STORE_CORE must be 'compiled' or 'pure', got 'fast'" in done.stderr


def test_the_cores_offer_the_same_names():
    core = pytest.importorskip("tfio_store.records._core")
    from tfio_store.records import _pure

    own = {"Backend", "RecordDecoder", "SUMMED_BYTES", "backend", "frame_of", "sum_behind"}
    for name in set(framing.__all__) - own:
        assert hasattr(core, name), name
        assert hasattr(_pure, name), name
    for kind in ("Buffer", "FrameWriter", "RecordBatch", "RecordIterator", "Scan"):
        public = {name for name in dir(getattr(core, kind)) if not name.startswith("_")}
        assert public <= set(dir(getattr(_pure, kind))), kind


def test_the_compiled_classes_are_final():
    core = pytest.importorskip("tfio_store.records._core")
    for kind in (core.Buffer, core.FrameWriter, core.RecordBatch, core.RecordIterator):
        with pytest.raises(TypeError, match="not an acceptable base type"):
            type("Sub", (kind,), {})


def test_the_stub_tells_the_truth():
    """Every name of the .pyi is in the compiled module, and the other way around."""
    import ast
    from pathlib import Path

    core = pytest.importorskip("tfio_store.records._core")
    stub = Path(tfio_store.__file__).with_name("records") / "_core.pyi"
    told = {
        getattr(node, "name", None) or getattr(getattr(node, "target", None), "id", None)
        for node in ast.parse(stub.read_text(encoding="utf-8")).body
    }
    real = {
        name
        for name, value in vars(core).items()
        if not name.startswith("_") and getattr(value, "__module__", core.__name__) == core.__name__
    }
    modules = {name for name in real if type(vars(core)[name]).__name__ == "module"}
    assert real - modules <= told
    assert {"FRAME_OVERHEAD", "RecordBatch", "scan", "walk", "find_record"} <= told & real
