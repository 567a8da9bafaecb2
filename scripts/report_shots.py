"""Takes the pictures of docs/report.md: `make generate ONLY=shots`.

A dataset is made of drawn shapes, some of them odd on purpose, and its report is photographed.
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

import tfio_store as tfs
from tests.show.browsing import Tab, chromium, opened

TARGET = Path(__file__).parent.parent / "docs/_static/report"
SHAPES = ("disc", "square", "triangle", "ring", "star", "cross", "bar", "moon")
WORDS = (
    "a photo of one large {} on a plain wall",
    "{} in the evening light, seen from above",
    "drawing of a {}",
    "the {} that was found near the river. It is made of wood and was painted twice",
    "two people who look at a {} in a museum",
)
RECORDS = 8_000


def shape(chance: np.random.Generator, kind: int) -> bytes:
    """A picture of 96 by 96 pixels, drawn large and made small."""
    side = 288
    low, high = np.sort(chance.integers(60, 240, (2, 3)), axis=0)
    fade = np.linspace(0, 1, side)[:, None, None]
    ground = (high * (1 - 0.4 * fade) * np.ones((side, side, 1))).astype(np.uint8)
    image = Image.fromarray(ground)
    pen, ink = ImageDraw.Draw(image), tuple(map(int, low * 0.6))
    x, y = map(int, chance.integers(110, 180, 2))
    r = int(chance.integers(50, 100))
    _draw(pen, SHAPES[kind], x, y, r, ink, tuple(map(int, high)))
    kept = io.BytesIO()
    small = image.filter(ImageFilter.SMOOTH).resize((96, 96), Image.Resampling.LANCZOS)
    small.save(kept, "JPEG", quality=int(chance.integers(70, 95)))
    return kept.getvalue()


def _draw(pen: Any, name: str, x: int, y: int, r: int, ink: Any, ground: Any) -> None:
    box = (x - r, y - r, x + r, y + r)
    if name == "disc":
        pen.ellipse(box, fill=ink)
    elif name == "square":
        pen.rectangle(box, fill=ink)
    elif name == "triangle":
        pen.polygon([(x - r, y + r), (x + r, y + r), (x, y - r)], fill=ink)
    elif name == "ring":
        pen.ellipse(box, outline=ink, width=r // 3)
    elif name == "star":
        turns = np.arange(10) * np.pi / 5
        far = np.where(np.arange(10) % 2, 0.45, 1.0) * r
        pen.polygon(
            list(zip(x + far * np.sin(turns), y - far * np.cos(turns), strict=True)), fill=ink
        )
    elif name == "cross":
        pen.rectangle((x - r, y - r // 4, x + r, y + r // 4), fill=ink)
        pen.rectangle((x - r // 4, y - r, x + r // 4, y + r), fill=ink)
    elif name == "bar":
        pen.rectangle((x - r, y - r // 5, x + r, y + r // 5), fill=ink)
    else:
        pen.ellipse(box, fill=ink)
        pen.ellipse((x - r // 2, y - r, x + 3 * r // 2, y + r), fill=ground)


def make_dataset(folder: Path) -> str:
    """Shards of which two are too large, a rare class, texts cut at 64 tokens, and damage."""
    chance = np.random.default_rng(4)
    schema = tfs.Schema(
        {
            "image": "bytes",
            "label": tfs.Feature.class_label(SHAPES),
            "caption": "str",
            "tokens": ("int64", (None,)),
            "score": "float32",
            "price": "float32",
            "country": "str",
        }
    )
    url = str(folder / "shapes" / "train")
    kinds = chance.integers(0, len(SHAPES) - 1, RECORDS)
    kinds[5000] = len(SHAPES) - 1
    skewed = np.r_[np.ones(22), 7.5, 1, 6, np.ones(23)]
    shards = chance.choice(48, RECORDS, p=skewed / skewed.sum())
    following = iter(shards.tolist())
    with tfs.ShardedWriter(
        url, num_shards=48, schema=schema, shard_for=lambda record: next(following)
    ) as writer:
        for i in range(RECORDS):
            writer.write(_row(chance, i, int(kinds[i])))
    return url


def _row(chance: np.random.Generator, i: int, kind: int) -> dict[str, Any]:
    length = min(64, int(chance.gamma(3.2, 14)) + 3)
    score = float(chance.beta(5, 2))
    return {
        "image": shape(chance, kind),
        "label": kind,
        "caption": WORDS[i % len(WORDS)].format(SHAPES[kind]),
        "tokens": np.minimum(chance.zipf(1.3, length), 32_000),
        "score": float("nan") if i % 900 == 7 else score,
        "price": float(chance.lognormal(3, 0.8)),
        "country": ("Germany", "Côte d'Ivoire", "Brasil", "France", "Kenya", "India")[
            min(5, int(chance.exponential(1.3)))
        ],
    }


def damage(url: str) -> None:
    for shard, part in ((9, 0.31), (9, 0.74), (31, 0.55)):
        path = Path(f"{url}-{shard:05}-of-00048.tfrecord")
        data = bytearray(path.read_bytes())
        data[int(part * len(data))] ^= 255
        path.write_bytes(data)


def take(browser: Any, page: Path) -> None:
    def saved(tab: Tab, name: str, clip: dict[str, float] | None = None) -> None:
        tab.page.wait_for_timeout(500)
        shot = tab.page.screenshot(**({"clip": clip, "full_page": True} if clip else {}))
        image = Image.open(io.BytesIO(shot)).convert("RGB")
        image.quantize(256, dither=Image.Dither.NONE).save(TARGET / name, optimize=True)

    def below(tab: Tab, element: str, height: int, width: int) -> dict[str, float]:
        box = tab.page.locator(element).bounding_box()
        top = tab.page.evaluate("scrollY") + box["y"]
        return {"x": 0, "y": top, "width": width, "height": height}

    with opened(browser, page.as_uri(), width=1100) as tab:
        tab.scroll_through()
        saved(tab, "images.png", {"x": 0, "y": 0, "width": 1100, "height": 1000})
        saved(tab, "features.png", below(tab, "#feature-3", 1040, 1100))
        saved(tab, "shards.png", below(tab, "#shards", 1060, 1100))
    with opened(browser, page.as_uri(), width=400, dark=True) as tab:
        tab.scroll_through()
        saved(tab, "narrow.png", {"x": 0, "y": 0, "width": 400, "height": 1100})


def main() -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        url = make_dataset(folder)
        damage(url)
        made = tfs.report(url, full=True)
        page = folder / "report.html"
        page.write_text(made.html.replace(str(folder), "s3://bucket"), encoding="utf-8")
        with chromium() as browser:
            take(browser, page)
    for path in sorted(TARGET.glob("*.png")):
        print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
