"""The short form of ``make long ONLY=kills``."""

from __future__ import annotations

import random
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.kills.run import killed_and_restored, write


@pytest.mark.timeout(280)
@pytest.mark.parametrize(
    "reader",
    ["RecordReader", pytest.param("tf.data", marks=[pytest.mark.tensorflow, pytest.mark.long])],
)
def test_no_record_is_lost_or_repeated_by_kills(tmp_path: Path, reader: str) -> None:
    epochs = 2
    if reader == "tf.data" and version("tensorflow").startswith("2.16."):
        epochs = 1  # later ones come in another order after a restore; the docs say so
    write(str(tmp_path / "train"))
    url, seed = str(tmp_path / "train"), random.Random(reader).randrange(1000)
    killed_and_restored(reader, url, tmp_path, kills=4, epochs=epochs, seed=seed)
