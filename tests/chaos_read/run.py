"""One read after the other, each drawn from a seed of its own."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import random
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import tfio_store as tfs
from tests.chaos_read import content, faults, reads
from tests.chaos_read.sites import Site
from tests.chaos_read.verdict import WrongError, verdict
from tfio_store.storage.cloud.azure import AzureStore
from tfio_store.storage.cloud.bucket_store import BucketStore
from tfio_store.storage.cloud.obstore import ObstoreReads
from tfio_store.storage.fsspec_store import FsspecStore, MemoryStore
from tfio_store.storage.local import LocalStore

__all__ = ["LIMIT", "one", "small_ranges", "watched"]

LIMIT = 60.0
"""Seconds after which a read counts as hung."""

RANGE = 32 << 10


@contextlib.contextmanager
def small_ranges() -> Iterator[None]:
    """Have the small objects here take many requests."""
    with contextlib.ExitStack() as stack:
        for store in (AzureStore, BucketStore, FsspecStore, LocalStore, MemoryStore, ObstoreReads):
            if "range_bytes" in vars(store):
                kept = vars(store)["range_bytes"]
                stack.callback(setattr, store, "range_bytes", kept)
                store.range_bytes = RANGE
        yield


def one(seed: int, site: Site, *, tensorflow: bool) -> tuple[str, str, str]:
    """A read of a fresh source: the fault, the way, and what became of it. WrongError tells all
    that was drawn."""
    dice = random.Random(seed)
    form, variant = dice.choice(list(content.FORMS)), dice.randrange(content.VARIANTS)
    old = content.source(form, variant, "old")
    fault = faults.draw(dice, old, line=site.liar is not None)
    way = reads.draw(dice, tensorflow=tensorflow, blocks=form not in ("gzip", "zlib"))
    skip = way in reads.SKIPPING and dice.random() < 0.3
    folder, new = f"case-{seed}", content.source(form, variant, "new")
    for name, data in faults.damaged(dice, fault, old, new).objects.items():
        site.put(f"{folder}/{name}", data)

    def midway() -> None:
        for name, data in new.objects.items() if fault.kind == "replaced" else ():
            site.put(f"{folder}/{name}", data)
        if asked.cache is not None:
            faults.put_foreign_things(dice, Path(asked.cache.path))

    after = dice.randrange(max(len(old.records) // 2, 1))
    url = site.met.url(f"{folder}/{old.named}")
    asked = reads.Asked(url, site.met, dice, skip, midway, after)
    stack = contextlib.ExitStack()
    if fault.kind == faults.CACHE:
        asked = replace(asked, cache=spoilt_cache(stack, asked))
    if site.liar is not None:
        site.liar.lie = faults.lie(dice, fault, site.liar)
    try:
        seen = reads.read(way, asked)
    finally:
        stack.close()
        if site.liar is not None:
            site.liar.lie = lambda: None
    drawn = f"{form}, variant {variant}, {fault}, {way}, skip={skip}, {len(seen.records)} of "
    drawn += f"{len(old.records)} records, said {seen.said} times, {seen.error!r}"
    try:
        became = verdict(
            seen,
            fault,
            generations(fault, old, new),
            skip=skip,
            compressed=content.FORMS[form] is not None,
        )
    except WrongError as wrong:
        raise WrongError(f"{wrong}: {drawn}") from seen.error
    return fault.kind, way + " skipping" * skip, became


def spoilt_cache(stack: contextlib.ExitStack, asked: reads.Asked) -> tfs.LocalCache:
    """A cache that held all of the source, as this process knows it or as another one left it."""
    # ranges that were fetched ahead may still be kept
    folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
    kept = tfs.LocalCache(folder)
    storage = asked.place.storage(cache=kept)
    with tfs.RecordReader(asked.url, storage=storage) as reader:
        for _ in reader.batches():
            pass
    faults.put_foreign_things(asked.dice, Path(folder))
    return asked.dice.choice([kept, tfs.LocalCache(folder, max_bytes=1 << 40)])


def generations(fault: faults.Fault, old: content.Source, new: content.Source) -> list[list[bytes]]:
    """What a read may bring: a generation, and of several files without a manifest one of each.
    By the index, a shard of another generation is noticed."""
    return [old.records, new.records] if fault.kind == "replaced" else [old.records]


def watched(run: Callable[[], Any], what: str, limit: float = LIMIT) -> Any:
    """What ``run`` gives. A hang ends the process, with ``what`` and where all threads stand."""

    def hung() -> None:
        print(f"\nHUNG for {limit:.0f} s: {what}", file=sys.stderr, flush=True)
        faulthandler.dump_traceback(sys.stderr, all_threads=True)
        os._exit(3)

    timer = threading.Timer(limit, hung)
    timer.daemon = True
    timer.start()
    try:
        return run()
    finally:
        timer.cancel()


def tally(found: Counter[tuple[str, str]]) -> str:
    """Rows of a table: of each fault what became of the reads."""
    rows = []
    for fault in sorted({fault for fault, _ in found}):
        became = [(count, what) for (kind, what), count in found.items() if kind == fault]
        told = ", ".join(f"{what}: {count}" for count, what in sorted(became, reverse=True))
        rows.append(f"| {fault} | {sum(count for count, _ in became):,} | {told} |\n")
    return "".join(rows)
