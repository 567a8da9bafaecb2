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


core = Extension(
    "tfio_store._core",
    sources=["ext/_core.pyx", *sources("crc32c*.c", "tfrecord*.c", "pool.c")],
    include_dirs=["ext"],
    depends=sources("*.h", "*.pxd", "*.pxi"),
    extra_compile_args=FLAGS,
)

tf_filesystem = Extension(
    "tfio_store._tf_filesystem",
    sources=["ext/_tf_filesystem.pyx", *sources("fs_*.c", "tf_filesystem.c", "tf_abi.c")],
    include_dirs=["ext"],
    depends=sources("*.h"),
    extra_compile_args=FLAGS,
    libraries=["dl"] if sys.platform == "linux" else [],
)

examples = [
    Extension(
        f"tfio_store.example.{name}",
        sources=[f"ext/{name}.pyx", *sources("example_*.c")],
        include_dirs=["ext"],
        depends=sources("example*.h", "example.pxd", "_encode*.pxi"),
        extra_compile_args=FLAGS,
    )
    for name in ("_encode", "_decode")
]

# Needs no TensorFlow to build: see ext/tf_abi.h.
tensorflow = Extension(
    "tfio_store._tensorflow",
    sources=[
        "ext/_tensorflow.pyx",
        *[path for path in sources("tf_*.c") if Path(path).name != "tf_filesystem.c"],
        *sources("crc32c*.c", "tfrecord*.c", "pool.c", "example_locate.c", "example_values.c"),
    ],
    include_dirs=["ext"],
    depends=sources("*.h"),
    extra_compile_args=FLAGS,
    libraries=["dl"] if sys.platform == "linux" else [],
)

setup(
    ext_modules=cythonize(
        [core, tf_filesystem, tensorflow, *examples],
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
