"""The package where TensorFlow is not installed."""

from __future__ import annotations

import pytest

from tests.support.started import python

BLOCK = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("tensorflow", "keras"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
"""


def run(program: str) -> str:
    done = python(BLOCK + program)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_star_import() -> None:
    assert run("from tfio_store import *; print(RecordReader.__name__)") == "RecordReader\n"


def test_names_are_there() -> None:
    program = "import inspect, tfio_store as t; print(hasattr(t, 'TFRecordDataset'), "
    assert run(program + "len(inspect.getmembers(t)) > 40)") == "True True\n"


def test_help() -> None:
    program = "import tfio_store; help(tfio_store); help(tfio_store.TFRecordDataset)"
    assert "pip install 'tfio_store[tensorflow]'" in run(program)


def test_help_is_that_of_the_real_ones() -> None:
    """Signatures, arguments and examples can be read before TensorFlow is installed."""
    program = """
import inspect, tfio_store as t
for name, word in {
    "TFRecordDataset": "filenames", "load": "url", "save": "dataset", "list_files": "pattern",
    "register_filesystem": "schemes", "mix_datasets": "datasets", "accelerate": "",
}.items():
    made = getattr(t, name)
    text = inspect.getdoc(made)
    assert text.startswith(f"tfio_store.{name} needs tensorflow"), text
    assert "Example" in text or "    >>> " in text, text
    assert word in str(inspect.signature(made)), (name, inspect.signature(made))
assert "batch_size: int | None = None" in str(inspect.signature(t.TFRecordDataset))
assert "exact" in inspect.getdoc(t.TFRecordDataset.cardinality)
help(t.TFRecordDataset)
"""
    shown = run(program)
    assert "TFRecordDataset(filenames: Any, compression_type: Any = None," in shown
    assert "buffer_size (int | None)" in shown


@pytest.mark.parametrize(
    "call",
    [
        "TFRecordDataset('f')",
        "list_files('*')",
        "load('f')",
        "save(None, 'f')",
        "register_filesystem('s3')",
    ],
)
def test_calls_say_what_to_install(call: str) -> None:
    program = f"""
import tfio_store
try:
    tfio_store.{call}
except ModuleNotFoundError as error:
    print(error)
"""
    assert "pip install 'tfio_store[tensorflow]'" in run(program)
