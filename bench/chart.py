"""How many times as fast as peers, drawn from docs/benchmarks.md: `make generate ONLY=chart`.

The tables are the only place of the figures, so the chart says nothing else. A name, a section of
the page, a row and a column tell where each is; a ratio of two rows where no column holds it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
TO = ROOT / "docs/_static/speed.svg"


@dataclass(frozen=True)
class Bar:
    """One comparison: the figure of a row and a column of the table in ``section`` whose head
    begins with ``table``. If these are speeds: divided by that of the row of the peer."""

    name: str
    peer: str
    section: str
    row: str
    column: str
    beside: str | None = None
    table: str | None = None


BARS = (
    Bar("local records of 100 B", "tfrecord, without CRCs", "core", "100 B", ": tfrecord"),
    Bar("local records of 100 KiB", "tfrecord, without CRCs", "core", "100 KiB", ": tfrecord"),
    Bar("tf.data: shuffled, parsed", "TensorFlow, unchanged code", "Unchanged pipelines",
        "`.shuffle.batch.map(parse_example)`", "100 B", table="pipeline, local"),
    Bar("tf.data: parsed one by one", "TensorFlow, unchanged code", "Unchanged pipelines",
        "`.shuffle.map(single).batch`", "1 kB", table="pipeline, local"),
    Bar("tf.data: files on S3", "tensorflow-io", "tf.data", "ours, obstore", "x best peer"),
    Bar("PyTorch: rows", "tfrecord", "PyTorch", "local, tfio_store", "records/s",
        "local, tfrecord", "rows of 10 scalars"),
    Bar("PyTorch: images on S3", "webdataset", "PyTorch", "S3, tfio_store, obstore", "records/s",
        "S3, webdataset", "images of 100 KB"),
    Bar("Ray: rows of 1 KiB", "Ray's own reader", "engines", "1 KiB read", "times"),
    Bar("Beam: batches of 100 B", "Beam's own reader", "engines", "100 B", "batched"),
    Bar("Spark: a table", "Parquet", "engines", "read", "times"),
)  # fmt: skip


def times(bar: Bar, page: str) -> float:
    """How many times as fast as the peer. LookupError if the page does not tell."""
    wanted = _figure(bar, bar.row, page)
    return wanted if bar.beside is None else wanted / _figure(bar, bar.beside, page)


def _figure(bar: Bar, row: str, page: str) -> float:
    sections = re.split(r"^## ", page, flags=re.MULTILINE)
    (found,) = (part for part in sections if part.startswith(f"{bar.section}\n"))
    for lines in re.findall(r"(?:^\|.*\n)+", found, re.MULTILINE):
        head, _, *body = map(_cells, lines.splitlines())
        if bar.column in head[1:] and bar.table in (None, head[0]):
            for cells in body:
                if row in (cells[0], f"{cells[0]} {cells[1]}"):
                    return _number(cells[head.index(bar.column, 1)])
    raise LookupError(f"docs/benchmarks.md, {bar.section}: no row {row!r} with {bar.column!r}")


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip()[1:-1].split("|")]


def _number(cell: str) -> float:
    """Of "1,138", "7.8x" or "1121 (8.3x)"."""
    ratio = re.search(r"([\d.]+)x", cell)
    return float(ratio[1] if ratio else cell.replace(",", ""))


def told(bar: Bar, speed: float) -> str:
    """What stands beside the bar."""
    return f"{speed:.2g}x {bar.peer}" if speed < 10 else f"{speed:.0f}x {bar.peer}"


def draw(page: str, to: Path) -> None:
    """One line a comparison. Equal speed is a line down the middle, since some are slower."""
    import matplotlib
    from matplotlib.figure import Figure

    # Text stays text, and the same figures give the same file.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "speed", "font.size": 11})
    figure = Figure(figsize=(9.2, 0.42 * len(BARS) + 0.9), layout="constrained")
    axes = figure.add_subplot()
    speeds = [times(bar, page) for bar in BARS]
    colors = ["#2f81f7" if speed >= 1 else "#d29922" for speed in speeds]
    axes.barh(range(len(BARS)), [speed - 1 for speed in speeds], left=1, color=colors, height=0.62)
    for place, (bar, speed) in enumerate(zip(BARS, speeds, strict=True)):
        axes.text(max(speed, 1) * 1.03, place, told(bar, speed), va="center", color="#768390")
    axes.set_yticks(range(len(BARS)), [bar.name for bar in BARS])
    axes.set_xscale("log")
    axes.set_xlim(0.3, 200)
    axes.set_xticks([0.5, 1, 2, 5, 10, 20, 50], ["0.5x", "1x", "2x", "5x", "10x", "20x", "50x"])
    axes.minorticks_off()
    axes.invert_yaxis()
    axes.axvline(1, color="#768390", linewidth=1)
    axes.tick_params(colors="#768390", length=0)
    axes.spines[:].set_visible(False)
    axes.set_title("Speed of tfio_store, in times the peer's", color="#768390", loc="left")
    figure.savefig(to, format="svg", transparent=True, metadata={"Date": None})


if __name__ == "__main__":
    draw((ROOT / "docs/benchmarks.md").read_text(encoding="utf-8"), TO)
