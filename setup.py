"""The compiled extensions; everything else about the package is in pyproject.toml."""

from __future__ import annotations

import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

EXT = Path("ext")
FLAGS = ["-std=c11", "-O3", "-fno-strict-aliasing", "-fvisibility=hidden"]


def sources(*patterns: str) -> list[str]:
    return sorted(str(path) for pattern in patterns for path in EXT.glob(pattern))


HEADERS = sources("**/*.h", "**/*.pxd", "**/*.pxi")
CORE = sources("crc32c/*.c", "tfrecord/*.c", "memory/*.c")
EXAMPLE = sources("example/example_*.c")
DL = ["dl"] if sys.platform == "linux" else []


def extension(name: str, pyx: str, c_sources: list[str], libraries: list[str]) -> Extension:
    return Extension(
        f"tfio_store.{name}",
        sources=[f"ext/{pyx}", *c_sources],
        include_dirs=["ext"],
        depends=HEADERS,
        extra_compile_args=FLAGS,
        libraries=libraries,
    )


# None needs TensorFlow to build: see ext/tensorflow/abi.h.
EXTENSIONS = [
    extension("records._core", "core/_core.pyx", CORE, []),
    extension("example._example", "example/_example.pyx", EXAMPLE, []),
    extension(
        "tf._tensorflow",
        "tensorflow/_tensorflow.pyx",
        [*sources("tensorflow/**/[a-z]*.c"), *EXAMPLE, *CORE],
        DL,
    ),
]

setup(
    ext_modules=cythonize(
        EXTENSIONS,
        include_path=[f"ext/{room}" for room in ("crc32c", "tfrecord", "memory", "example")],
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "embedsignature": True,
            "freethreading_compatible": False,
        },
    ),
)
