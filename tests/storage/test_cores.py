"""How many cores a process may use: its affinity, and the quotas of its control groups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfio_store.storage import cores as module
from tfio_store.storage.cores import cores, count_cores, workers


@pytest.fixture
def sixteen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)


def counted(tmp_path: Path, groups: str, files: dict[str, str]) -> int:
    (tmp_path / "cgroup").write_text(groups)
    for name, text in files.items():
        path = tmp_path / "mount" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return count_cores(tmp_path / "cgroup", tmp_path / "mount")


def v1(quota: int, period: int = 100_000) -> dict[str, str]:
    return {"cpu.cfs_quota_us": f"{quota}\n", "cpu.cfs_period_us": f"{period}\n"}


@pytest.mark.usefixtures("sixteen")
@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("", {}, 16),
        ("0::/\n", {"cpu.max": "max 100000\n"}, 16),
        ("0::/\n", {"cpu.max": "400000 100000\n"}, 4),
        ("0::/\n", {"cpu.max": "350000 100000\n"}, 4),
        ("0::/\n", {"cpu.max": "1000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "6400000 100000\n"}, 16),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "200000 100000"}, 2),
        ("0::/a/b\n", {"a/b/cpu.max": "300000 100000", "cpu.max": "800000 100000"}, 3),
        ("0::/of/the/host\n", {"cpu.max": "500000 100000"}, 5),
        ("0::/a\n", {"a/cpu.max": "what is this\n"}, 16),
        ("4:cpu,cpuacct:/\n0::/\n", {f"cpu/{n}": t for n, t in v1(-1).items()}, 16),
        ("4:cpu,cpuacct:/\n0::/\n", {f"cpu/{n}": t for n, t in v1(600_000).items()}, 6),
        ("4:cpuacct,cpu:/a\n", {f"cpu/a/{n}": t for n, t in v1(150_000, 50_000).items()}, 3),
        ("4:memory:/a\n", {"memory/a/cpu.max": "100000 100000"}, 16),
    ],
)
def test_quotas(tmp_path: Path, groups: str, files: dict[str, str], expected: int) -> None:
    assert counted(tmp_path, groups, files) == expected


def test_affinity_where_there_are_no_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 5, 6}, raising=False)
    assert count_cores(tmp_path / "none", tmp_path) == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    assert count_cores(tmp_path / "none", tmp_path) == os.cpu_count()


def test_all_share_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert workers() is workers(1) is workers(cores())
    many = workers(cores() + 3)
    assert many is workers(cores() + 3)
    assert many is not workers()
    assert module.cores() == cores() >= 1
