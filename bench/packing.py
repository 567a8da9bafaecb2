"""``make bench-packing``: documents of tokens to batches of packed rows, beside Grain's packing.

The documents lie in a local TFRecord dataset. Their lengths are log-normal, as those of web pages
are about. Grain's packing gets its documents from ``tfio_store.grain.stream``, so that both read
and decode alike; "from memory" it gets them from a list of arrays, and reads nothing. Plain Python
gets lists of decoded columns of fewer documents, and packs as the tests do. The fill is the part of
the rows' places that hold a token. The speed is of a whole pass, from the loader's start on: the
median of some, in turns. CPU time is that of all threads.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import grain
import numpy as np

import tfio_store as tfs
import tfio_store.grain as ours
from bench.timing import costs, machine, table
from tests.support import packed
from tfio_store.torch import TFRecordIterable

DOCUMENTS, FEW = 40_000, 4_000
LENGTH, WINDOW, BATCH = 2048, 128, 8
ROUNDS = 3
PEER = "Grain over stream"
COLUMNS = ["loader", "rows/s", "ratio", "processor µs a row", "fill, %"]
HOW = ("first_fit", "concat")


def written(url: str, documents: int) -> str:
    drawn = np.random.default_rng(1)
    sizes = np.minimum(drawn.lognormal(6, 1, documents), LENGTH).astype(np.int64)
    tokens = drawn.integers(0, 50_000, sizes.sum())
    column = tfs.Ragged(tokens, np.concatenate([[0], np.cumsum(sizes)]))
    tfs.write_table({"tokens": column}, url, num_shards=4)
    return url


def packing_of(how: Any) -> tfs.Packing:
    return tfs.Packing("tokens", LENGTH, how=how, window=WINDOW if how == "first_fit" else None)


def by_torch(url: str, how: str) -> Any:
    return TFRecordIterable(url, pack=packing_of(how), batch_size=BATCH)


def by_stream(url: str, how: str) -> Any:
    return ours.stream(url, pack=packing_of(how)).batch(BATCH)


def by_grain(documents: Any, how: str) -> Any:
    """``documents``: a Grain dataset of them."""
    length: Any = {"tokens": LENGTH}
    if how == "first_fit":
        rows = grain.experimental.FirstFitPackIterDataset(
            documents, length_struct=length, num_packing_bins=WINDOW, shuffle_bins=False
        )
    else:
        rows = grain.experimental.ConcatThenSplitIterDataset(documents, length_struct=length)
    return rows.batch(BATCH)


def in_memory(url: str) -> Any:
    rows = [{"tokens": row["tokens"]} for row in ours.stream(url)]
    return grain.MapDataset.source(rows).to_iter_dataset(
        grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    )


def by_python(url: str, how: str) -> Iterator[dict[str, Any]]:
    documents = tfs.read_table(url)["tokens"].tolist()
    rows = packed.packed(documents, packing_of(how))
    for at in range(0, len(rows), BATCH):
        columns = zip(*rows[at : at + BATCH], strict=True)
        yield dict(zip(("tokens", "segment_ids", "positions"), map(np.array, columns), strict=True))


def counted(batches: Any) -> tuple[int, int]:
    """Rows, and their tokens."""
    rows = tokens = 0
    for batch in batches:
        segments = batch.get("segment_ids", batch.get("tokens_segment_ids"))
        rows += len(segments)
        tokens += int((segments > 0).sum())
    return rows, tokens


def consumed(make: Callable[[], Any]) -> None:
    for _ in make():
        pass


def main() -> None:
    print(machine() + "\n")
    with tempfile.TemporaryDirectory() as folder:
        url, few = written(f"{folder}/train", DOCUMENTS), written(f"{folder}/few", FEW)
        memory = in_memory(url)
        for how in HOW:
            loaders: dict[str, Callable[[], Any]] = {
                "TFRecordIterable": partial(by_torch, url, how),
                "stream": partial(by_stream, url, how),
                PEER: lambda how=how: by_grain(ours.stream(url), how),
                "Grain from memory": partial(by_grain, memory, how),
                "plain Python": partial(by_python, few, how),
            }
            found = {name: counted(make()) for name, make in loaders.items()}
            calls = {name: partial(consumed, make) for name, make in loaders.items()}
            taken, rows = costs(calls, rounds=ROUNDS), []
            speed = {name: count / taken[name].wall for name, (count, _) in found.items()}
            for name, (count, tokens) in found.items():
                cells = [f"{speed[name]:,.0f}", f"{speed[name] / speed[PEER]:.2g}"]
                cells.append(f"{1e6 * taken[name].busy / count:,.0f}")
                rows.append([name, *cells, f"{100 * tokens / count / LENGTH:.1f}"])
            title = f"{how}: {DOCUMENTS:,} documents in rows of {LENGTH:,}, batches of {BATCH}"
            print(table(title, COLUMNS, rows))


if __name__ == "__main__":
    main()
