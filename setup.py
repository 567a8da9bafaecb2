"""The compiled extensions; everything else about the package is in pyproject.toml."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import BaseError, CCompilerError

EXT = Path("ext")
FLAGS = ["-std=c11", "-O3", "-fno-strict-aliasing", "-fvisibility=hidden"]

# The same words as at run time: "compiled" fails the build where one does not compile.
CORE_CHOICE = os.environ.get("TFIO_STORE_CORE", "")


def sources(*patterns: str) -> list[str]:
    return sorted(str(path) for pattern in patterns for path in EXT.glob(pattern))


# What a source distribution must hold besides the C files.
HEADERS = sources("**/*.h", "**/*.pyx", "**/*.pxd", "**/*.pxi")
CORE = sources("crc32c/*.c", "tfrecord/*.c", "memory/*.c", "tasks/*.c")
INFLATE = sources("inflate/*.c")
EXAMPLE = sources("example/example_*.c")
TASKS = sources("tasks/*.c")
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
    extension("records._core", "core/_core.pyx", [*CORE, *INFLATE], []),
    extension("example._example", "example/_example.pyx", [*EXAMPLE, *TASKS], []),
    extension("example._resize", "image/_resize.pyx", sources("image/resize.c"), []),
    extension("loader._pack", "loader/_pack.pyx", sources("loader/pack.c"), []),
    extension(
        "tf._tensorflow",
        "tensorflow/_tensorflow.pyx",
        [*sources("tensorflow/**/[a-z]*.c"), *EXAMPLE, *CORE],
        DL,
    ),
]


class BuildWhatCompiles(build_ext):
    """Leaves out a module that does not compile: Python does its work."""

    def build_extensions(self) -> None:
        self.left_out: dict[str, Exception] = {}
        super().build_extensions()
        if self.left_out:
            self.warn(
                f"tfio_store is built without {', '.join(self.left_out)}, and is many times slower "
                "for it. Install again where there is a C compiler. The first of them failed so: "
                f"{next(iter(self.left_out.values()))}"
            )

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except (BaseError, CCompilerError) as error:
            if not ext.optional:
                raise
            self.left_out[ext.name] = error


class BuildWithStartup(build_py):
    """Adds the line that Python runs at its start, for TFIO_STORE_ACCELERATE."""

    PTH = "tfio_store_startup.pth"

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            self.copy_file("tfio_store/startup.pth", f"{self.build_lib}/{self.PTH}")

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), f"{self.build_lib}/{self.PTH}"]


MODULES = cythonize(
    EXTENSIONS,
    include_path=[
        f"ext/{room}" for room in ("crc32c", "inflate", "tfrecord", "memory", "tasks", "example")
    ],
    compiler_directives={
        "language_level": 3,
        "boundscheck": False,
        "wraparound": False,
        "embedsignature": True,
        "freethreading_compatible": True,
    },
)
for module in MODULES:  # cythonize would forget it
    module.optional = CORE_CHOICE != "compiled"

setup(cmdclass={"build_ext": BuildWhatCompiles, "build_py": BuildWithStartup}, ext_modules=MODULES)
