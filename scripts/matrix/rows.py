"""What is tried with what."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ROWS", "Row"]

ROOMS = (
    "records",
    "example",
    "dataset",
    "storage",
    "read",
    "write",
    "tables",
    "maintain",
    "show",
    "cli",
)
PLAIN = tuple(f"tests/{room}" for room in ROOMS)
"""What needs no TensorFlow."""

BRIDGE = tuple(
    f"tests/tf/test_{name}.py"
    for name in (
        "batches", "stream_op", "stream_batches", "training_op_parsing", "record_rows",
        "file_io_table", "save_load", "checkpoint", "bridge", "schemas",
        "dataset_storage", "order",
    )
)  # fmt: skip
"""What hangs on TensorFlow's own version: its headers, its plugins, its saved graphs."""

STORES = ("s3", "gcs", "azure", "obstore")
EXTRAS = (*STORES, "zstd", "arrow", "cli", "image", "images", "fast-gzip", "progress", "robots")


@dataclass(frozen=True)
class Row:
    """One environment, and the tests that run in it.

    ``lowest`` extras have every dependency at the lower bound that `pyproject.toml` gives. Of all
    other packages ``constraints`` names the version; without it they are the newest that fit.
    """

    name: str
    python: str
    tests: tuple[str, ...] = PLAIN
    lowest: tuple[str, ...] = ()
    tensorflow: str = ""
    constraints: str = "requirements/constraints.txt"


def _tensorflow(name: str, python: str, version: str, constraints: str) -> Row:
    return Row(name, python, BRIDGE, tensorflow=version, constraints=constraints)


ROWS = (
    # On the oldest Python that obstore has a wheel for.
    Row("lowest", "3.11", lowest=EXTRAS),
    *(Row(f"python-{python}", python) for python in ("3.10", "3.11", "3.12", "3.13", "3.14")),
    _tensorflow("tf-2.16", "3.10", "tensorflow==2.16.2", "requirements/tf216.txt"),
    # The first without s3://.
    _tensorflow("tf-2.18", "3.11", "tensorflow==2.18.1", ""),
    _tensorflow("tf-2.20", "3.12", "tensorflow==2.20.0", ""),
    _tensorflow("tf-newest", "3.13", "tensorflow", "requirements/constraints.txt"),
)
