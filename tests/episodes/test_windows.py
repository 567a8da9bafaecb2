"""Windows against the plainest way to cut an episode."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.episodes.robots import written
from tests.episodes.same import same

LENGTHS = (5, 1, 9, 3, 12)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("robots") / "arm" / "1.0.0", LENGTHS)


def reference(
    episode: dict[str, Any], t: int, span: tuple[int, int], pad: str, path: tuple[str, ...]
) -> tuple[Any, list[bool]]:
    """Steps ``t + span`` of a feature, one by one."""
    column: Any = episode["steps"]
    for key in path:
        column = column[key]
    found, mask = [], []
    for step in range(t + span[0], t + span[1]):
        real = 0 <= step < len(column)
        value = column[min(max(step, 0), len(column) - 1)]
        if not real and pad == "zero":
            value = "" if isinstance(value, str) else np.zeros_like(value)
        found.append(value)
        mask.append(real)
    return found, mask


@pytest.mark.parametrize("pad", ["repeat", "zero"])
@pytest.mark.parametrize(("length", "stride", "past"), [(16, 1, 2), (3, 2, 0), (1, 5, 1)])
def test_every_window_is_what_a_loop_cuts(
    url: str, pad: Any, length: int, stride: int, past: int
) -> None:
    episodes = tfs.Episodes(url)
    windows = episodes.windows(length=length, stride=stride, past=past, pad=pad)
    place = 0
    for number, episode in enumerate(episodes):
        for t in range(0, int(episodes.lengths[number]), stride):
            window = windows[place]
            assert (window["episode_index"], window["step_index"]) == (number, t)
            assert windows.place(place) == (number, t)
            for path in (("observation", "image"), ("action",), ("language_instruction",)):
                span = (-past, 1) if path[0] == "observation" else (0, length)
                wanted, mask = reference(episode, t, span, pad, path)
                got: Any = window
                real: Any = window["mask"]
                for key in path:
                    got, real = got[key], real[key]
                assert len(got) == len(wanted)
                assert all(np.array_equal(a, b) for a, b in zip(got, wanted, strict=True))
                assert real.tolist() == mask
            place += 1
    assert len(windows) == place


def test_drop_leaves_out_what_reaches_out_of_an_episode(url: str) -> None:
    episodes = tfs.Episodes(url)
    windows = episodes.windows(length=4, past=1, stride=2, pad="drop")
    wanted = [
        (number, t)
        for number, length in enumerate(episodes.lengths.tolist())
        for t in range(0, length, 2)
        if t >= 1 and t + 4 <= length
    ]
    assert [windows.place(i) for i in range(len(windows))] == wanted
    for i in range(len(windows)):
        assert windows[i]["mask"]["action"].all()
        assert windows[i]["mask"]["observation"]["state"].all()


def test_a_batch_has_the_windows(url: str) -> None:
    windows = tfs.Episodes(url).windows(length=3, past=1)
    numbers = [7, 0, 7, len(windows) - 1]
    batch = windows[numbers]
    assert batch["observation"]["image"].shape == (4, 2, 2, 2, 3)
    assert batch["mask"]["action"].shape == (4, 3)
    for row, number in enumerate(numbers):
        one = windows[number]
        assert same(batch["action"][row], one["action"])
        assert same(batch["observation"]["image"][row], one["observation"]["image"])
    assert [each["step_index"] for each in windows.__getitems__(numbers)] == [
        windows.place(n)[1] for n in numbers
    ]


def test_keys_choose_features_and_their_steps(url: str) -> None:
    episodes = tfs.Episodes(url)
    windows = episodes.windows(
        keys={"observation/state": (-2, 3), "action": (0, 1), "episode_metadata": (0, 1)}
    )
    window = windows[3]
    assert window["observation"]["state"].shape == (5, 2)
    assert window["action"].shape == (1, 3)
    assert window["episode_metadata"]["file_path"].startswith("/data/")
    assert window.keys() == {
        "observation", "action", "episode_metadata", "mask", "episode_index", "step_index"
    }  # fmt: skip
    some = episodes.windows(length=2, keys=["action"])[0]
    assert some.keys() == {"action", "mask", "episode_index", "step_index"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 0}, "length="),
        ({"stride": -1}, "stride="),
        ({"past": -1}, "past="),
        ({"past": 1.5}, "past="),
        ({"length": 1 << 40}, "at most"),
        ({"pad": "edge"}, "pad="),
        ({"keys": ["nothing"]}, "keys= names 'nothing'"),
        ({"keys": {"action": (3, 3)}}, r"keys= of 'action' takes \(start, stop\)"),
        ({"keys": ["episode_metadata"]}, "keys= names no feature of the steps"),
    ],
)
def test_wrong_arguments_are_named(url: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tfs.Episodes(url).windows(**options)


def test_windows_pickle(url: str) -> None:
    windows = tfs.Episodes(url).windows(length=2)
    again = pickle.loads(pickle.dumps(windows))
    assert same(again[3], windows[3])
    assert repr(again) == repr(windows)


def test_a_frame_is_decoded_once_for_a_batch(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tfio_store import image

    counts: list[int] = []
    plain = image.decode

    def counted(batch: Any, **options: Any) -> Any:
        counts.append(len(batch))
        return plain(batch, **options)

    windows = tfs.Episodes(url).windows(length=1, past=3)
    monkeypatch.setattr(image, "decode", counted)
    windows[[0, 1, 2, 3, 4]]  # all of the first episode, of five steps
    assert counts == [5]


def test_only_the_asked_frames_are_decoded(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tfio_store import image

    counts: list[int] = []
    plain = image.decode
    episodes = tfs.Episodes(url)

    def counted(batch: Any, **options: Any) -> Any:
        counts.append(len(batch))
        return plain(batch, **options)

    monkeypatch.setattr(image, "decode", counted)
    episodes.steps[3]
    episodes.windows(length=8, past=1)[6]
    assert counts == [1, 2]
