"""The compiled extensions; everything else about the package is in pyproject.toml."""

from __future__ import annotations

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

EXT = Path("ext")
FLAGS = ["-std=c11", "-O3", "-fno-strict-aliasing", "-fvisibility=hidden"]
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wsign-compare", "-Werror"]


def sources(*patterns: str) -> list[str]:
    return sorted(str(path) for pattern in patterns for path in EXT.glob(pattern))


core = Extension(
    "tfio_store._core",
    sources=["ext/_core.pyx", *sources("crc32c*.c", "tfrecord*.c", "pool.c", "example.c")],
    include_dirs=["ext"],
    depends=sources("*.h", "*.pxd", "*.pxi"),
    extra_compile_args=FLAGS,
)

setup(
    ext_modules=cythonize(
        [core],
        include_path=["ext"],
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "embedsignature": True,
            "freethreading_compatible": False,
        },
    ),
)
