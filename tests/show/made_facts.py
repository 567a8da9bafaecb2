"""Facts by hand: what a page shows of each kind of dataset, and of hostile ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.show.datasets import png, wav
from tfio_store.errors import Reason
from tfio_store.show.model import (
    Damage,
    Facts,
    FeatureFacts,
    Finding,
    Header,
    Histogram,
    Item,
    Place,
    Scope,
    ShardBar,
    SizeAt,
    Top,
)

HOSTILE = '<img src=x onerror="alert(1)"></script><script>document.title="owned"</script>'
CHANCE = np.random.default_rng(7)
SHARES = (0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1)


def histogram(values: npt.NDArray[Any], bins: int = 30, *, log: bool = False) -> Histogram:
    low, high = float(values.min()), float(values.max())
    edges = np.geomspace(low, high, bins + 1) if log else np.linspace(low, high, bins + 1)
    counts, found = np.histogram(values, edges)
    return Histogram(tuple(map(float, found)), tuple(map(int, counts)), log)


def numbers(name: str, values: npt.NDArray[Any], **changes: Any) -> FeatureFacts:
    found, counts = np.unique(values, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:20]
    made = FeatureFacts(
        name=name, dtype=str(values.dtype), role="number",
        records=len(values), present=len(values), values=len(values), nans=0, infinite=0,
        zeros=int((values == 0).sum()), least=float(values.min()), most=float(values.max()),
        mean=float(values.mean()), std=float(values.std()),
        quantiles=tuple(float(np.quantile(values, q, method="inverted_cdf")) for q in SHARES),
        histogram=histogram(values), lengths=Histogram((1.0, 2.0), (len(values),)),
        length_least=1, length_most=1, length_mean=1.0, distinct=len(found),
        top=tuple(Top(str(found[i]), int(counts[i])) for i in order), exact=True,
    )  # fmt: skip
    return replace(made, **changes)


def strings(name: str, sizes: npt.NDArray[Any], role: Any = "text", **changes: Any) -> FeatureFacts:
    made = FeatureFacts(
        name=name, dtype="str" if role == "text" else "bytes", role=role,
        records=len(sizes), present=len(sizes), values=len(sizes), nans=0, infinite=0, zeros=0,
        least=None, most=None, mean=None, std=None, quantiles=(), histogram=None,
        lengths=histogram(sizes), length_least=int(sizes.min()),
        length_most=int(sizes.max()), length_mean=float(sizes.mean()),
        distinct=None, top=(), exact=True,
    )  # fmt: skip
    return replace(made, **changes)


def place(row: int, *, number: int | None = -1, shard: int = 0) -> Place:
    return Place(row, shard, row * 37 if number == -1 else number, row * 2000, min(1, row / 100))


def image(row: int, data: bytes | None = None, **changes: Any) -> Item:
    data = png(48, 48, seed=row) if data is None else data
    captions = (("label", str(row % 10)), ("split", "train"))
    made = Item("image", "image", place(row), captions, len(data), False, "image/png", data, 48, 48)
    return replace(made, **changes)


def text(row: int, words: str, **changes: Any) -> Item:
    made = Item("text", "text", place(row), (("language", "en"),), len(words), False, text=words)
    return replace(made, **changes)


def sound(row: int) -> Item:
    data = wav(0.5)
    return Item("audio", "clip", place(row), (), len(data), False, "audio/wav", data)


def shard_bars(count: int) -> tuple[ShardBar, ...]:
    sizes = CHANCE.normal(64e6, 2e6, count).astype(int)
    if count > 20:
        sizes[[7, 30 % count]] *= 6
    middle = float(np.median(sizes))
    return tuple(
        ShardBar(i, 1, f"s3://data/ds/train-{i:05}-of-{count:05}.tfrecord", int(size),
                 int(size) // 5000, float(size / middle), bool(size > 5 * middle))
        for i, size in enumerate(sizes)
    )  # fmt: skip


def block_sizes(count: int) -> tuple[SizeAt, ...]:
    return tuple(
        SizeAt(i / count, i // 4, 900 + int(CHANCE.integers(300)), 5000 + 20 * i,
               20_000 + int(CHANCE.integers(90_000)))
        for i in range(count)
    )  # fmt: skip


def facts(**changes: Any) -> Facts:
    """Of a dataset of images with labels, which has something of everything."""
    label = CHANCE.choice(10, 12_000, p=[0.12] * 8 + [0.039, 0.001])
    tokens = np.minimum(128, CHANCE.gamma(4, 22, 12_000).astype(int) + 4)
    price = CHANCE.lognormal(3, 1, 12_000).astype(np.float32)
    days = CHANCE.integers(18_000, 20_500, 12_000)
    made = Facts(
        header=Header(
            source="s3://data/imagenet/2026-10/train", records=1_281_167, nbytes=147_000_000_000,
            shards=64, codec="GZIP",
            schema=(("image", "bytes ()"), ("label", "int64 ()"), ("price", "float32 ()")),
            schema_source="manifest", generation="3f9a1c8e0b52", written="2026-11-20T10:11:12Z",
            made="2026-11-23T08:30:00Z", version="0.1.0",
        ),
        scope=Scope(256, 9_500, False, 12_000, 1_281_167, 290_000_000, False, 0, ()),
        findings=(
            Finding("damage", "error", "2 damaged regions: 5,120 bytes are lost", shards=(3, 9)),
            Finding("shard-size", "warning", "2 of 64 shards are 5x the median", None, (7, 30)),
            Finding("cut-length", "warning", "feature tokens: 21 % are exactly 128 long: cut?",
                    "tokens", rows=(1, 5)),
            Finding("rare-class", "note", "label 9 is in 0.1 % of records", "label", rows=(3,)),
        ),
        features=(
            strings("image", CHANCE.gamma(9, 12_000, 12_000).astype(int), "image"),
            numbers("label", label, role="class"),
            numbers("price", price, histogram=histogram(price, log=True), present=11_700, nans=3),
            numbers("taken", days, role="time", dtype="datetime64[D]", unit="D"),
            numbers("weight", np.ones(12_000, np.float32), histogram=None),
            strings("text", CHANCE.gamma(5, 60, 12_000).astype(int)),
            strings("country", CHANCE.integers(2, 14, 12_000), top=(
                Top("Germany", 5000), Top("日本", 2500), Top("مصر", 400), Top("Côte d'Ivoire", 100),
            ), distinct=4),
            strings("hash", np.full(12_000, 16), "bytes", lengths=None),
            numbers("tokens", CHANCE.integers(0, 50_000, 12_000), length_least=4, length_most=128,
                    length_mean=float(tokens.mean()), lengths=histogram(tokens), exact=False),
        ),
        shards=shard_bars(64),
        shards_median=64e6,
        sizes=block_sizes(256),
        damage=(
            Damage(3, "s3://data/ds/train-00003-of-00064.tfrecord", 12_000_000, 4096,
                   Reason.DATA_CRC.text, Reason.DATA_CRC, 64_000_000),
            Damage(9, "s3://data/ds/train-00009-of-00064.tfrecord", 50_000_000, None,
                   "the gzip stream does not decompress", Reason.STREAM, 63_000_000),
        ),
        items=(
            *(image(i) for i in range(60)),
            *(text(i, "The quick brown fox jumps over the dog. " * (1 + i % 5)) for i in range(8)),
            sound(70), sound(71),
        ),
        places=tuple(place(i) for i in range(72)),
    )  # fmt: skip
    return replace(made, **changes)


def empty() -> Facts:
    """Of no records at all."""
    made = facts()
    return replace(
        made,
        header=replace(made.header, records=0, nbytes=0, shards=0, schema=()),
        scope=Scope(0, 0, False, 0, 0, 0, True, 0, ()),
        findings=(), features=(), shards=(), shards_median=0, sizes=(), damage=(), items=(),
        places=(),
    )  # fmt: skip


def hostile() -> Facts:
    """Names and values that would be markup, if anything read them as such."""
    made = facts()
    top = (Top(HOSTILE, 9), Top("\x00\u2028]]>", 3))
    evil = tuple(
        replace(one, name=f"{HOSTILE}{i}", dtype=HOSTILE, top=top)
        for i, one in enumerate(made.features)
    )  # fmt: skip
    bars = tuple(replace(bar, name=HOSTILE) for bar in made.shards)
    items = (
        image(0, feature=HOSTILE, captions=((HOSTILE, HOSTILE),)),
        image(1, b"<svg onload=alert(1)>", media_type="image/svg+xml"),
        image(2, b"not a png"),
        image(3, media_type='image/png" onerror="alert(1)'),
        text(4, HOSTILE, feature="javascript:alert(1)"),
        text(5, "\u202e\x1b[31m\u2028 \ud800 lone"),
    )
    return replace(
        made,
        header=replace(made.header, source=f"/data/{HOSTILE}", codec=HOSTILE,
                       schema=((HOSTILE, HOSTILE),), generation=HOSTILE),
        findings=(Finding("damage", "error", HOSTILE, HOSTILE + "0", (1,), (1,)),),
        scope=replace(made.scope, left_out=(HOSTILE,)),
        features=evil, shards=bars, items=items,
        damage=tuple(replace(one, name=HOSTILE, reason=HOSTILE) for one in made.damage),
    )  # fmt: skip


def wide(count: int = 5000) -> Facts:
    """Of many features, with long names."""
    made = facts()
    name = "a_long_name_of_a_feature_that_somebody_made_by_a_program/group_{}/column_{}"
    one = numbers("", CHANCE.normal(0, 1, 2000))
    features = tuple(replace(one, name=name.format(i // 100, i)) for i in range(count))
    return replace(made, features=features, findings=(), items=made.items[:3])


def many_shards() -> Facts:
    """Of 100,000 shards, of which each bar stands for a hundred."""
    made = facts()
    bars = tuple(replace(bar, first=bar.first * 100, shards=100) for bar in shard_bars(1000))
    return replace(made, header=replace(made.header, shards=100_000), shards=bars, items=())
