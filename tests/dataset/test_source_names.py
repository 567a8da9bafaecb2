"""The grammar of source names by itself, and what the names mean in stores and in every door."""

from __future__ import annotations

import fnmatch
import itertools
import json
import os
import shutil
import subprocess
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

import tfio_store as tfs
from tests.servers.place import Place
from tests.servers.web import web_server
from tests.support.framed import framed
from tests.support.named import FILES, MEANINGS, MISTAKES, file_names, put_all, put_in
from tfio_store.cli.entry import main
from tfio_store.dataset import pages, source_names
from tfio_store.dataset.block_tables import decode_table
from tfio_store.dataset.source_names import Names, Numbered, Pattern, grouped, numbered, step

LOCAL = "*?[" + "@,{}"


def expanded(name: str) -> list[str]:
    """All names that braces make of one."""
    found = step(name, source_names.Stage.LISTED)
    return list(found.names) if isinstance(found, Names) else [name]


# --- braces ---------------------------------------------------------------------------------------


def oracle(text: str) -> list[str]:
    """What a shell makes of braces: slow, and written from bash's manual."""
    for at, letter in enumerate(text):
        if letter != "{":
            continue
        depth, commas, end = 0, [], -1
        for place in range(at, len(text)):
            depth += {"{": 1, "}": -1}.get(text[place], 0)
            if depth == 1 and text[place] == ",":
                commas.append(place)
            if depth == 0:
                end = place
                break
        if end < 0:
            continue
        if commas:
            ends = [at, *commas, end]
            parts = [text[a + 1 : b] for a, b in itertools.pairwise(ends)]
            choices = [made for part in parts for made in oracle(part)]
        else:
            first, dots, last = text[at + 1 : end].partition("..")
            numbers = first.isdecimal() and last.isdecimal()
            letters = {first, last} <= {"a", "b"}
            if not (dots and (numbers or letters)):
                continue
            width = max(len(first), len(last)) if "0" in (first[0], last[0]) else 0
            width = 0 if {first, last} <= set("0123456789") else width
            a, b = (int(first), int(last)) if numbers else (ord(first), ord(last))
            order = range(a, b + 1) if a <= b else range(a, b - 1, -1)
            choices = [str(n).zfill(width) if numbers else chr(n) for n in order]
        return [text[:at] + made + rest for made in choices for rest in oracle(text[end + 1 :])]
    return [text]


@given(st.lists(st.sampled_from(["{", "}", ",", "..", "a", "b", "0", "1", "02", "/"]), max_size=12))
@settings(max_examples=1000)
@example(["{", "a", "..", "a", "}"])
def test_braces_are_those_of_a_shell(parts: list[str]) -> None:
    text = "".join(parts)
    assert expanded(text) == oracle(text)


BRACED = [
    "a{b,c}d", "{a,b}{c,d}", "{a,{b,c}d}e", "{1..3}", "{03..1}", "{0..8..2}", "x{}y", "{a}", "{a,}",
    "{,a}{,b}", "{a,b}}", "{{a,b}", "{a..c}", "{c..a..2}", "{-1..1}", "{-01..1}", "{1..1}",
    "{1..3..0}", "{5..1..2}", "{x{1..2},y}", "}{", "{a,b", "a,b}", "{A..C}",
]  # fmt: skip


@pytest.mark.parametrize("text", BRACED)
def test_braces_by_bash(text: str) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    said = subprocess.run([bash, "-c", f"printf '%s\\n' x{text}"], capture_output=True, text=True)
    assert expanded(f"x{text}") == said.stdout.splitlines()


@pytest.mark.parametrize(
    "text",
    ["x{0..1000000000}", "x{1..1000}{1..1000}", "{a,b}" * 20, "{0..999999999999999999}",
     "x" * 10_000 + "{1..100000}", "{a,{a," * 40 + "b" + "}}" * 40],
)  # fmt: skip
def test_hostile_braces(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="braces"):
            step(text)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    with pytest.raises(ValueError, match="braces"):
        tfs.open(text)


@pytest.mark.parametrize("text", ["[", "{", "@1", "}", "[a", "{a"])
def test_long_names_are_no_burden(text: str) -> None:
    made = text * 100_000
    assert step(made) in (None, Pattern(made), numbered(made))


# --- commas, numbers, brackets --------------------------------------------------------------------


@given(st.lists(st.text("ab/.-_@0 é", min_size=1), min_size=2, max_size=6))
def test_a_list_with_commas(names: list[str]) -> None:
    """Split and joined again, it is what it was."""
    found = step(",".join(names))
    assert isinstance(found, Names)
    assert list(found.names) == names


@given(
    st.text("ab-./é ", min_size=1).filter(lambda name: not name.endswith("/")),
    st.integers(1, 10**6),
    st.sampled_from(["", ".gz", ".tfrecord", ".tfrecord.gz"]),
)
def test_numbered_names(prefix: str, count: int, suffix: str) -> None:
    found = numbered(f"{prefix}@{count}{suffix}")
    assert found == Numbered(prefix, count, suffix)
    assert found is not None
    assert found.said() == f"{prefix}@{count}{suffix}"
    width = max(5, len(str(count)))
    last = f"{prefix}-{count - 1:0{width}d}-of-{count:0{width}d}{suffix}"
    assert found.file(count - 1) == last
    assert fnmatch.fnmatch(last, source_names.as_pattern(found))
    assert source_names.shard_number(last) == (prefix, count - 1, count, suffix)


@pytest.mark.parametrize(
    "name",
    ["x@0", "@16", "x/@16", "x@", "x@a", "x@16/y", "x@1.", "x@-1", "x@1e3", "s3://b/u@16/x", "x@ 1",
     "http://u@16.com", "x@99999999999999999999", "x@\uff11", "plain", "a.b-c_d", "~/x", "C:/x"],
)  # fmt: skip
def test_names_that_stand_for_themselves(name: str) -> None:
    assert step(name) is None


@pytest.mark.parametrize(
    "url",
    ["http://h/x?a=1,2", "https://h/x-{1,2}?sig=*&at=x@16", "HTTP://h/x?y[0]=1",
     "simplecache::https://h/x?a,b"],
)  # fmt: skip
def test_a_query_is_no_pattern(url: str) -> None:
    assert step(url) is None


@pytest.mark.parametrize("letter", list(LOCAL))
def test_a_letter_in_brackets(letter: str) -> None:
    name = f"a[{letter}]b"
    assert step(name) == Pattern(name)


def test_parts_of_a_list_keep_their_braces_and_brackets() -> None:
    found = step("a{1,2}b,[,]c,d@3,tfrecord:e,f[!,]")
    assert isinstance(found, Names)
    assert list(found.names) == ["a{1,2}b", "[,]c", "d@3", "tfrecord:e", "f[!,]"]


# --- files in a folder ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["a-00000-of-00002", "a-00001-of-00002", "README.md"], ["a@2"]),
        ([f"t-{i}.tfr" for i in range(12)], ["t-*.tfr"]),
        ([f"t{i}.tfrecord" for i in range(1, 4)], ["t*.tfrecord"]),
        (["cifar10.tfrecord", "cifar100.tfrecord"], ["cifar10.tfrecord", "cifar100.tfrecord"]),
        (["r02.tfrecords", "r03.tfrecords"], ["r02.tfrecords", "r03.tfrecords"]),
        (["v1-0.tfr", "v2-1.tfr"], ["v1-0.tfr", "v2-1.tfr"]),
        (["a.tfrecord", "_hidden.tfrecord", ".b.tfrecord"], ["a.tfrecord"]),
        (["t-0.tfr", "t-2.tfr"], ["t-0.tfr", "t-2.tfr"]),
    ],
)  # fmt: skip
def test_files_that_are_one_dataset(names: list[str], said: list[str]) -> None:
    groups, others = grouped(names)
    assert [group.said for group in groups] == said
    assert others == []


def test_shards_are_in_the_order_of_their_numbers() -> None:
    ((group,), _) = grouped(f"t-{i}.tfr" for i in (10, 9, *range(9), 11))
    assert [*group.files] == [f"t-{i}.tfr" for i in range(12)]


# --- in a store -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return put_in(tmp_path_factory.mktemp("named"))


def by_reader(name: str) -> list[str]:
    return file_names(tfs.RecordReader(name))


def by_source(name: str) -> list[str]:
    return file_names(tfs.RecordSource(name)[:])


def by_partitions(name: str) -> list[str]:
    parts = tfs.partitions(name, target_bytes=1)
    return file_names(record for part in parts for batch in part.batches() for record in batch)


def by_open(name: str) -> list[str]:
    return file_names(tfs.RecordReader(tfs.open(name)))


def by_list(name: str) -> list[str]:
    return file_names(tfs.RecordReader([name]))


def by_slice(name: str) -> list[str]:
    return file_names(tfs.RecordReader(tfs.slice(name, ":")))


def by_table(name: str) -> list[str]:
    return [str(text) for text in tfs.read_table(name, schema={"name": "str"})["name"]]


DOORS: list[Callable[[str], list[str]]] = [
    by_reader, by_source, by_partitions, by_open, by_list, by_slice, by_table,
]  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", MEANINGS)
def test_meanings(folder: str, name: str, door: Callable[[str], list[str]]) -> None:
    assert door(name.format(*[f"{folder}/"] * 9)) == MEANINGS[name]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(folder: str, name: str, door: Callable[[str], list[str]]) -> None:
    kind, text = MISTAKES[name]
    with pytest.raises(kind, match=text) as caught:
        door(name.format(f"{folder}/"))
    assert caught.value.errno is not None
    assert caught.value.filename is not None


@pytest.mark.parametrize("name", MEANINGS)
def test_meanings_on_the_command_line(
    folder: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("click")
    assert main(["cat", "-c", "name", name.format(*[f"{folder}/"] * 9)]) == 0
    found = [json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()]
    assert found == MEANINGS[name]


@pytest.mark.parametrize("name", ["dv/exmaples.tfrecord@3.gz", "holes/x@4", "basenji"])
def test_mistakes_on_the_command_line(
    folder: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("click")
    with pytest.raises((FileNotFoundError, IsADirectoryError)) as caught:
        tfs.open(f"{folder}/{name}")
    assert main(["count", f"{folder}/{name}"]) == 3
    assert str(caught.value.strerror) in capsys.readouterr().err


SHORT = [
    "{}dv/examples.tfrecord@3.gz", "{}dv/examples.tfrecord@*", "{}dv",
    "{}basenji/train-{{0..11}}.tfr", "tfrecord:{}ydf/ds@2,{}basenji/train-0.tfr",
    "{}lit/a,b",
    "{}lit/x@2", "{}lit/w[1]", "{}lit/s?", "{}üñí/é@2", "{}at@16/x@home/one",
    "{}basenji/train-?.tfr",
]  # fmt: skip


def test_meanings_in_a_bucket(s3: Place) -> None:
    put_all(s3.put)
    for name in SHORT:
        source = name.format(*[f"{s3.url()}/"] * 9)
        found = file_names(tfs.RecordReader(source, storage=s3.storage()))
        assert found == MEANINGS[name], name


def test_mistakes_in_a_bucket(s3: Place) -> None:
    put_all(s3.put)
    for name, (kind, text) in MISTAKES.items():
        with pytest.raises(kind, match=text):
            tfs.open(name.format(f"{s3.url()}/"), storage=s3.storage())


def test_a_literal_dataset_wins(tmp_path: Path) -> None:
    for name in ("a,b", "x{1,2}"):
        tfs.write_table({"x": [1]}, tmp_path / name, num_shards=1)
        tfs.write_table({"x": [1, 2]}, tmp_path / "a", num_shards=1, if_exists="overwrite")
        assert tfs.count(tmp_path / name) == 1


def test_a_web_address_with_a_query() -> None:
    data = framed([b"one"])
    for name in ("/x@2?sig=a,b&d=*", "/plain-0?x=y@2"):
        with web_server() as web:
            web.files[name] = data
            assert list(tfs.RecordReader(web.endpoint + name)) == [b"one"]


def test_numbered_shards_of_a_web_server() -> None:
    files = {f"/d/x-{i:05d}-of-00003.gz": framed([b"%d" % i]) for i in range(3)}
    with web_server() as web:
        web.files |= files
        assert list(tfs.RecordReader(f"{web.endpoint}/d/x@3.gz")) == [b"0", b"1", b"2"]
        assert list(tfs.RecordReader(f"{web.endpoint}/d/x-0000{{2,1}}-of-00003.gz")) == [b"2", b"1"]
        del web.files["/d/x-00001-of-00003.gz"]
        with pytest.raises(FileNotFoundError, match="1 of its 3 shards is missing: shard 1"):
            tfs.open(f"{web.endpoint}/d/x@3.gz")


def test_a_huge_number_of_shards(tmp_path: Path) -> None:
    (tmp_path / f"x-{7:09d}-of-{10**8}").write_bytes(framed([b"1"]))
    tracemalloc.start()
    try:
        with pytest.raises(FileNotFoundError, match="99999999 of its 100000000 shards are missing"):
            tfs.open(tmp_path / "x@100000000")
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_a_name_longer_than_any_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(framed([b"1"]))
    for count in (40, 3000):
        assert len(list(tfs.RecordReader(",".join([f"{tmp_path}/a"] * count)))) == count


@pytest.mark.parametrize(
    ("name", "text"),
    [("a,,b", "empty name"), ("a,", "empty name"), ("{0..1000000000}", "at most|most")],
)
def test_names_that_are_wrong(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        tfs.open(f"{tmp_path}/{name}")


def test_two_datasets_of_one_name(tmp_path: Path) -> None:
    for file in ("x-00000-of-00001.gz", "x-00000-of-00001.tfrecord", "y-00000-of-00001",
                 "y-00000-of-00002", "y-00001-of-00002"):  # fmt: skip
        (tmp_path / file).write_bytes(framed([b"1"]))
    for name in ("x@1", "x@*", "y@*"):
        with pytest.raises(ValueError, match=r"several datasets; name one of .*[xy]@1"):
            tfs.open(tmp_path / name)
    assert tfs.open(tmp_path / "y@2").num_records is None


def test_what_is_not_committed_is_not_there(tmp_path: Path) -> None:
    """A writer's claim stands beside all of its shards until they count."""
    for i in range(2):
        (tmp_path / f"x-{i:05d}-of-00002.tfrecord").write_bytes(framed([b"1"]))
    assert len(tfs.open(tmp_path / "x@2").shards) == len(tfs.open(tmp_path).shards) == 2
    (tmp_path / "_x.claim").write_bytes(b"{}")
    for name in ("x@2", "x@2.tfrecord", "x@*", "x", ""):
        with pytest.raises(FileNotFoundError, match="writer is still at work"):
            tfs.open(tmp_path / name)


def test_a_pattern_of_all_shards_says_which_are_missing(tmp_path: Path) -> None:
    (tmp_path / "x-00001-of-00003").write_bytes(framed([b"1"]))
    with pytest.warns(RuntimeWarning, match="2 of its 3 shards are missing: shards 0, 2"):
        assert list(tfs.RecordReader(f"{tmp_path}/x-?????-of-00003")) == [b"1"]


TWO_OF_THREE = [f"part-{i:05d}-of-00003.tfrecord" for i in (0, 2)]


@pytest.mark.parametrize(
    "pattern",
    ["*", "*.tfrecord", "p*", "part-*-of-*", "part-0000?-of-*", "part-*-of-00003.tfrecord",
     "part-?????-of-00003.tfrecord", "part-0000[0-2]-of-00003*", "part-0000[!0]*", "../*/part-*",
     "../**/*.tfrecord", "**"],
)  # fmt: skip
def test_a_pattern_that_would_find_a_missing_shard_says_so(place: Place, pattern: str) -> None:
    for name in (*TWO_OF_THREE, "whole-00000-of-00001", "other.tfrecord"):
        place.put(f"d/{name}", framed([name.encode()]))
    pattern = pattern[3:] if pattern.startswith("../") else f"d/{pattern}"
    said = r"1 of its 3 shards is missing: shard 1 \(.*d/part-00001-of-00003\.tfrecord\)"
    with pytest.warns(RuntimeWarning, match=said) as warned:
        reader = tfs.RecordReader(place.url(pattern), storage=place.storage())
    assert len(warned) == 1
    assert b"part-00002-of-00003.tfrecord" in list(reader)


@pytest.mark.parametrize(
    "pattern", ["part-0000[02]-of-*", "part-0000[0]*", "*-00002-*", "part-00000*", "o*", "*1"]
)
def test_a_pattern_for_some_shards_asks_for_no_others(
    place: Place, pattern: str, recwarn: pytest.WarningsRecorder
) -> None:
    for name in (*TWO_OF_THREE, "whole-00000-of-00001", "other.tfrecord"):
        place.put(f"d/{name}", framed([name.encode()]))
    assert list(tfs.RecordReader(place.url(f"d/{pattern}"), storage=place.storage()))
    assert not [each for each in recwarn if "missing" in str(each.message)]


def test_a_pattern_with_a_number_needs_all_shards(tmp_path: Path) -> None:
    for name in TWO_OF_THREE:
        (tmp_path / name).write_bytes(framed([b"1"]))
    for name in ("p*@3.tfrecord", "p*@*.tfrecord", "*@3.tfrecord"):
        with pytest.raises(FileNotFoundError, match="1 of its 3 shards is missing: shard 1"):
            tfs.open(tmp_path / name)


def test_a_pattern_counts_the_shards_that_it_would_find(tmp_path: Path) -> None:
    for i in (0, 1, 4, 5, 12):
        (tmp_path / f"x-{i:07d}-of-0000020").write_bytes(framed([b"%d" % i]))
    said = r"4 of its 20 shards are missing: shards 2, 3, 6, 7 \(.*x-0000002-of-0000020\)"
    with pytest.warns(RuntimeWarning, match=said):
        tfs.open(f"{tmp_path}/x-000000[0-7]-of-*")
    with pytest.warns(RuntimeWarning, match="15 of its 20 shards are missing: .* 8 …"):
        tfs.open(f"{tmp_path}/x-*")


def test_a_pattern_over_names_that_claim_endless_shards(tmp_path: Path) -> None:
    for i in range(8):
        (tmp_path / f"{i}-00000-of-{10**18}").write_bytes(framed([b"1"]))
    begun = time.monotonic()
    with pytest.warns(RuntimeWarning, match=f"{10**18 - 1} of its {10**18} shards are missing"):
        tfs.open(f"{tmp_path}/*")
    tfs.open(f"{tmp_path}/*-00000-of-*")
    assert time.monotonic() - begun < 10


def test_wide_numbers(tmp_path: Path) -> None:
    for i in range(2):
        (tmp_path / f"x-{i:06d}-of-000002").write_bytes(framed([b"%d" % i]))
    assert list(tfs.RecordReader(tmp_path / "x@2")) == [b"0", b"1"]


# --- what it costs --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*FILES[:3], "a/plain.tfrecord"])
def test_plain_names_take_one_look(
    memory: Place, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    memory.put(name, framed([b"1"]))
    asked: list[str] = []
    store = type(memory.open("")[0])
    for method in ("look", "info", "glob", "get", "list"):
        real: Any = getattr(store, method)

        def counted(*args: Any, real: Any = real, method: str = method, **more: Any) -> Any:
            asked.append(method)
            return real(*args, **more)

        monkeypatch.setattr(store, method, counted)
    tfs.open(memory.url(name))
    looks = 1 + name.endswith(".gz")  # also for the index that a compressed file may have
    assert asked.count("look") == looks
    assert set(asked) <= {"look", "info"}


# --- writers --------------------------------------------------------------------------------------


def test_writers_take_a_number(tmp_path: Path) -> None:
    with tfs.ShardedWriter(tmp_path / "a@3") as writer:
        writer.write_batch([b"1", b"2", b"3", b"4"])
    assert len(writer.manifest.shards) == 3
    tfs.copy(tmp_path / "a@3", tmp_path / "b@2.gz", target_compression="GZIP")
    assert sorted(p.name for p in tmp_path.glob("b-*")) == [
        f"b-0000{i}-of-00002.gz" for i in (0, 1)
    ]
    assert list(tfs.RecordReader(tmp_path / "b@2.gz")) == list(tfs.RecordReader(tmp_path / "a"))
    assert tfs.open(tmp_path / "b@2").num_records == 4
    tfs.write_table({"x": [1, 2]}, tmp_path / "c@2")
    tfs.convert(tmp_path / "c@2", tmp_path / "c.jsonl")
    tfs.convert(tmp_path / "c.jsonl", tmp_path / "d@2")
    assert len(tfs.open(tmp_path / "d").shards) == 2
    job = tfs.WriteJob(tmp_path / "e@2")
    assert job.num_shards == 2
    job.commit([job.write_shard(i, [b"x"]) for i in range(2)])
    assert tfs.open(tmp_path / "e@2").num_records == 2
    tfs.salvage(tmp_path / "e@2", tmp_path / "f@1")
    assert len(tfs.open(tmp_path / "f@1").shards) == 1
    assert not list(tmp_path.glob("*@*"))


def test_a_name_of_a_writer_that_says_two_things(tmp_path: Path) -> None:
    for options in (
        {"num_shards": 4},
        {"max_shard_bytes": 9},
        {"shard_template": "{name}-{shard}"},
    ):
        with pytest.raises(ValueError, match="shard"):
            tfs.ShardedWriter(tmp_path / "a@3.gz", **options)
    for name in ("a@*", "a@*.gz"):
        with pytest.raises(ValueError, match="how many shards"):
            tfs.ShardedWriter(tmp_path / name)
    assert os.listdir(tmp_path) == []


def test_shards_that_a_manifest_names_are_read_by_it(tmp_path: Path) -> None:
    """After an overwrite, the plain names are those of nobody."""
    for records in ([b"1", b"2"], [b"3", b"4"]):
        with tfs.ShardedWriter(tmp_path / "a@2", if_exists="overwrite") as writer:
            writer.write_batch(records)
    assert list(tfs.RecordReader(tmp_path / "a@2")) == [b"3", b"4"]
    with pytest.raises(FileNotFoundError, match=r"did you mean .*a"):
        tfs.open(tmp_path / "a@3")


def test_a_file_needs_no_table_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads files one by one would else pay for each as often as there are files."""
    with tfs.ShardedWriter(tmp_path / "train", num_shards=8) as writer:
        writer.write_batch([b"%d" % i for i in range(80)])
    decoded = list[int]()

    def counted(*given: Any) -> Any:
        decoded.append(1)
        return decode_table(*given)

    monkeypatch.setattr(pages, "decode_table", counted)
    assert len(list(tfs.RecordReader(tmp_path / "train-00003-of-00008.tfrecord"))) == 10
    assert len(decoded) == 1
