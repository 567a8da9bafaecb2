"""Damaged files: what is delivered before the error, and what is saved by skipping."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

import tfio_store as tfs
from tests.differential import oracle
from tests.differential.draw import Draw, hold, same
from tests.differential.sources import File, World, make_source
from tests.differential.tfdata import plain
from tests.servers.place import Place


def check_damage(draw: Draw, world: World) -> None:
    """One damaged file among whole ones."""
    with make_source(draw, world, names_of_files=True, codecs=(None, None, None, "GZIP")) as made:
        at = draw.random.randrange(len(made.files))
        file = made.files[at]
        if not file.data:
            return
        data = damaged(draw, file.data)
        damage(made.place, file, data)
        before = [r for f in made.files[:at] for r in f.records]
        behind = [r for f in made.files[at + 1 :] for r in f.records]
        skip = draw.chance("skip", 0.6)
        face = read_dataset if draw.chance("tensorflow", 0.4) else read_reader
        found, error = face(made.source, made.options, skip)
        if file.codec is None:
            check_raw(data, before, behind, found, error, skip=skip)
        else:
            whole = [*before, *file.records, *behind]
            hold(is_subsequence(found, whole), "records that nobody wrote, or in another order")
            hold(skip or found == whole or error, "records are missing, and nobody said so")


def damage(place: Place, file: File, data: bytes) -> None:
    """Put these bytes in place of the file's. On a disk, its index is still of this version if it
    is as long as before."""
    before = None if "://" in file.url else os.stat(file.url)
    place.put(file.url.rpartition("/")[2], data)
    if before is not None:
        os.utime(file.url, ns=(before.st_atime_ns, before.st_mtime_ns))


def damaged(draw: Draw, data: bytes) -> bytes:
    rng = draw.random
    at = draw.tell("damaged at", rng.randrange(len(data)))
    match draw.one("damage", "flip", "flip", "cut", "zeros", "removed", "inserted"):
        case "flip":
            return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        case "cut":
            return data[:at]
        case "zeros":
            count = min(rng.choice((4, 40)), len(data) - at)
            return data[:at] + bytes(count) + data[at + count :]
        case "removed":
            return data[:at] + data[at + rng.choice((1, 8, 100)) :]
    return data[:at] + rng.randbytes(rng.choice((1, 8, 100))) + data[at:]


def check_raw(
    data: bytes, before: list[bytes], behind: list[bytes], found: list[bytes],
    error: bool, *, skip: bool,
) -> None:  # fmt: skip
    good, whole = oracle.read(data)
    if whole:
        same((found, error), ([*before, *good, *behind], False), "(records, error)")
    elif not skip:
        same((found, error), ([*before, *good], True), "(records, error)")
    else:
        saved = salvaged(data)
        if not saved and error:
            return  # nothing at all could be read: that is an error even then
        same((found, error), ([*before, *saved, *behind], False), "what skipping saved, error")


def salvaged(data: bytes) -> list[bytes]:
    """Every sound frame, found by trying each byte."""
    records, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 8], "little")
        end = at + 16 + size
        if end <= len(data) and oracle.read(data[at:end])[1]:
            records.append(data[at + 12 : end - 4])
            at = end
        else:
            at += 1
    return records


def read_reader(source: Any, options: dict[str, Any], skip: bool) -> tuple[list[bytes], bool]:
    records = []
    reader = tfs.RecordReader(source, **options, on_corrupt="skip" if skip else "raise")
    try:
        for record in reader:
            records.append(record)
    except tfs.DataLossError:
        return records, True
    return records, False


def read_dataset(source: Any, options: dict[str, Any], skip: bool) -> tuple[list[bytes], bool]:
    records = []
    dataset = tfs.TFRecordDataset(source, **options, on_corrupt="skip" if skip else "raise")
    try:
        for element in dataset:
            records.append(plain(element))
    except tf.errors.DataLossError:
        return records, True
    return records, False


def is_subsequence(found: list[bytes], whole: list[bytes]) -> bool:
    rest = iter(whole)
    return all(any(record == each for each in rest) for record in found)
