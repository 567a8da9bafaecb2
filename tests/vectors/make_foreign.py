"""Writes the golden files in ``foreign/``: ``python -m tests.vectors.make_foreign``.

Each holds the same Examples, compressed by another program: gzip, pigz, bgzip, Java's
GZIPOutputStream, and Hadoop's codecs by the jars of PySpark. They are committed, so that the tests
need none of these. `FILES` says how each is made, and `records` what it holds.

On Debian, ``apt-get install pigz tabix default-jdk-headless`` brings the programs. PySpark lies in
``.venv-engines``.
"""

from __future__ import annotations

import random
import subprocess
import tempfile
from pathlib import Path

import tfio_store as tfs
from tests.support.framed import framed

FOLDER = Path(__file__).with_name("foreign")

COUNT = 400


def records() -> list[bytes]:
    """Examples of 350 bytes on average, which compress well: 140 KiB, so that each program makes
    several of its own blocks."""
    dice = random.Random("foreign")
    lines = [dice.randbytes(30).hex().encode() for _ in range(40)]
    texts = [b" ".join(dice.choices(lines, k=dice.randrange(11))) for _ in range(COUNT)]
    return list(tfs.encode_examples({"i": list(range(COUNT)), "text": texts}))


# Java's programs take the raw file, and write the packed one.

_JAVA = """
import java.io.*;
import java.util.zip.*;

public class Pack {
    public static void main(String[] args) throws Exception {
        try (InputStream from = new FileInputStream(args[1]);
             OutputStream file = new FileOutputStream(args[2]);
             OutputStream to = packed(args[0], file)) {
            from.transferTo(to);
        }
    }

    static OutputStream packed(String how, OutputStream file) throws Exception {
        if (how.equals("GZIPOutputStream")) return new GZIPOutputStream(file);
        if (how.equals("DeflaterOutputStream")) return new DeflaterOutputStream(file);
        Object conf = Class.forName("org.apache.hadoop.conf.Configuration")
            .getConstructor().newInstance();
        Class<?> kind = Class.forName("org.apache.hadoop.io.compress." + how);
        Object codec = kind.getConstructor().newInstance();
        kind.getMethod("setConf", conf.getClass()).invoke(codec, conf);
        return (OutputStream) kind.getMethod("createOutputStream", OutputStream.class)
            .invoke(codec, file);
    }
}
"""


def _java(how: str) -> str:
    return f"java -cp '{{jars}}/*' {{folder}}/Pack.java {how} {{raw}} {{out}} 2> {{folder}}/said"


_THIRDS = "split -n 3 {raw} {folder}/third- && "

FILES = {
    "gzip-1.gz": "gzip -1 -c {raw} > {out}",
    "gzip-9.gz": "gzip -9 -c {raw} > {out}",
    "gzip-rsyncable.gz": "gzip --rsyncable -c {raw} > {out}",
    "gzip-named.gz": "cp {raw} {folder}/train && gzip -N -c {folder}/train > {out}",
    "gzip-members.gz": _THIRDS + "for each in {folder}/third-*; do gzip -c $each; done > {out}",
    "gzip-zeros.gz": "(gzip -c {raw}; head -c 1000 /dev/zero) > {out}",
    "pigz.gz": "pigz -n -p 2 -b 32 -c {raw} > {out}",
    "pigz-independent.gz": "pigz -n -i -p 2 -b 32 -c {raw} > {out}",
    "pigz-11.gz": "pigz -n -11 -p 1 -c {raw} > {out}",
    "pigz.zlib": "pigz -z -p 2 -b 32 -c {raw} > {out}",
    "bgzip.gz": "bgzip -c {raw} > {out}",
    "java.gz": _java("GZIPOutputStream"),
    "java.zlib": _java("DeflaterOutputStream"),
    "hadoop.gz": _java("GzipCodec"),
    "hadoop.deflate": _java("DefaultCodec"),
}
"""The command that makes each. ``raw`` is the file as TFRecords."""

EMPTY = {
    "empty-gzip.gz": "gzip -c < /dev/null > {out}",
    "empty-pigz.gz": "pigz -n -c < /dev/null > {out}",
    "empty-bgzip.gz": "bgzip -c < /dev/null > {out}",
    "empty-java.gz": _java("GZIPOutputStream").replace("{raw}", "/dev/null"),
    "empty-hadoop.gz": _java("GzipCodec").replace("{raw}", "/dev/null"),
    "empty.zlib": "pigz -z -c < /dev/null > {out}",
}
"""As `FILES`, of no record."""


def main() -> None:
    import pyspark

    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder, "raw")
        raw.write_bytes(framed(records()))
        Path(folder, "Pack.java").write_text(_JAVA)
        for name, command in (FILES | EMPTY).items():
            where = {"jars": Path(pyspark.__file__).with_name("jars"), "folder": folder}
            run = command.format(raw=raw, out=FOLDER / name, **where)
            subprocess.run(run, shell=True, check=True)


if __name__ == "__main__":
    main()
