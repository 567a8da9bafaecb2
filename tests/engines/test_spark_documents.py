"""What docs/engines.md shows of Spark runs as it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.engines.test_ray_documents import section

pytest.importorskip("pyspark", reason="Spark is not installed")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_spark(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(section("Spark", tmp_path), "docs/engines.md", "exec"), {})
    assert capsys.readouterr().out.split() == ["1000", str(sum(i * i for i in range(1000)))]
