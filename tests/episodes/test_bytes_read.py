"""How much is read, and by how many requests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.episodes.robots import episode
from tests.episodes.same import same
from tests.servers.place import Place
from tests.servers.shaping_proxy import Shaped
from tfio_store.storage import fsspec_store, local

LENGTH = 60


def noise(number: int, t: int) -> bytes:
    rng = np.random.default_rng([number, t])
    return tfs.encode_image(rng.integers(0, 255, (40, 40, 3), dtype=np.uint8), "png")


def written(url: str, episodes: int, **options: Any) -> str:
    features = {
        "steps": {
            "observation": {"a": tfs.Feature.image("png"), "b": tfs.Feature.image("png")},
            "action": ("float32", (3,)),
            "language_instruction": tfs.Feature.text(),
        }
    }
    with tfs.EpisodeWriter(url, features, num_shards=2, **options) as writer:
        for number in range(episodes):
            steps = [
                {
                    "observation": {"a": noise(number, t), "b": noise(number, t + 1000)},
                    "action": step["action"],
                    "language_instruction": "lift",
                }
                for t, step in enumerate(episode(number, LENGTH)["steps"])
            ]
            writer.write({"steps": steps})
    return f"{url}/train"


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each range that is read of a local file, or of one in memory."""
    found: list[int] = []

    def count(store: Any) -> None:
        plain = store.read

        def read(self: Any, path: str, start: int, stop: int, **options: Any) -> Any:
            found.append(stop - start)
            return plain(self, path, start, stop, **options)

        monkeypatch.setattr(store, "read", read)

    count(local.LocalStore)
    count(fsspec_store.MemoryStore)
    return found


@pytest.mark.parametrize("where", ["a folder", "file://", "memory://"])
def test_a_step_by_itself_reads_its_own_bytes(
    tmp_path: Path, counted: list[int], where: str
) -> None:
    url = written(f"{where if '://' in where else ''}{tmp_path}/arm", 2)
    whole = tfs.Episodes(url)
    steps = tfs.Episodes(url, verify=False).steps
    ratios = []
    for number in (0, 17, 59, 60, 100, 119):
        del counted[:]
        found = steps[number]
        held = sum(len(tfs.encode_image(found["observation"][name], "png")) for name in ("a", "b"))
        ratios.append(sum(counted) / held)
        assert same(found, whole.steps[number])
    assert np.mean(ratios) < 1.25, ratios
    del counted[:]
    few = tfs.Episodes(url, verify=False, keys=["action"]).steps
    del counted[:]
    assert few[77]["action"].tolist() == [1, 17, 8.5]
    assert sum(counted) < 2000


def test_the_index_is_made_of_a_few_bytes_of_each_record(
    tmp_path: Path, counted: list[int]
) -> None:
    url = written(str(tmp_path / "arm"), 4)
    (tmp_path / "arm" / "_train.steps").unlink()
    size = sum(file.stat().st_size for file in (tmp_path / "arm").iterdir())
    del counted[:]
    assert tfs.Episodes(url).lengths.tolist() == [LENGTH] * 4
    assert sum(counted) < size / 10


def test_a_bucket_with_latency(s3: Place, shaped: Callable[..., Shaped]) -> None:
    url = written(s3.url("arm/1.0.0"), 6, storage=s3.storage())
    proxy = shaped(s3.endpoint, ttfb_ms=30)
    options = {**s3.storage_options, "endpoint_url": proxy.endpoint}
    episodes = tfs.Episodes(url, storage_options=options)
    opening = proxy.counts()["requests"]
    assert opening <= 20
    windows = episodes.windows(length=16, past=1)
    local_windows = tfs.Episodes(url, storage=s3.storage()).windows(length=16, past=1)
    order = list(windows.shuffle_by_episode(seed=1, batch_size=32))
    for batch in order:
        assert same(windows[batch]["action"], local_windows[batch]["action"])
    assert proxy.counts()["requests"] - opening <= 6 + 2, "each episode is fetched once"
    few = tfs.Episodes(url, storage_options=options, verify=False, keys=["action"])
    before = proxy.counts()["requests"]
    assert few.steps[77]["action"].tolist() == episodes.steps[77]["action"].tolist()
    assert proxy.counts()["requests"] - before <= 6
