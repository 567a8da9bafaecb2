"""Programs that are accelerated from outside: `tfio_store.accelerate` is called when TensorFlow has
been imported, and the program knows nothing of it.

    python -m tfio_store.accelerate [--report] [--filesystem s3] train.py --its --arguments
    python -m tfio_store.accelerate -m package.train --its --arguments
    TFIO_STORE_ACCELERATE=1 anything that starts Python

For the last one the installed package has a ``.pth`` file, which Python reads at its start, as
tools that trace and profile have. It does nothing unless the variable is set. What the program
prints and returns stays as it is: reports go to standard error, or to a file.
"""

from __future__ import annotations

import argparse
import atexit
import importlib.abc
import importlib.machinery
import os
import re
import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import IO

__all__ = ["VARIABLE", "run", "when_asked"]

VARIABLE = "TFIO_STORE_ACCELERATE"
_NO = ("", "0", "false", "no", "off")
_YES = ("1", "true", "yes", "on")

_UNKNOWN_SCHEME = re.compile(r"File system scheme '([a-z][a-z0-9+.-]*)' not implemented")
"""What TensorFlow says of a URL that no plugin opens."""


def when_asked() -> None:
    """Accelerate this process if `VARIABLE` says so: 1, or schemes to register (``s3,az``)."""
    value = os.environ.get(VARIABLE, "").strip()
    if value.lower() not in _NO:
        _accelerate([] if value.lower() in _YES else value.split(","), report=None)


def run(arguments: Sequence[str]) -> int:
    """Run a program as ``python`` runs it, accelerated. Its exit status is the process's."""
    given = _parser().parse_args(arguments)
    if not given.program:
        _parser().error("name a script, or -m and a module")
    report = Path(given.report_to).absolute() if given.report_to else None
    _accelerate(given.filesystem, sys.stderr if given.report else report)
    program, *sys.argv[1:] = given.program
    try:
        if given.module:
            sys.argv[0], sys.path[0] = program, os.getcwd()
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            sys.argv[0], sys.path[0] = program, os.path.dirname(os.path.abspath(program))
            runpy.run_path(program, run_name="__main__")
    except Exception as error:
        if found := _UNKNOWN_SCHEME.search(str(error)):
            told = f"TensorFlow itself opens {found[1]}:// here; --filesystem {found[1]} lets it"
            print(f"tfio_store.accelerate: {told}", file=sys.stderr)
        raise
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tfio_store.accelerate",
        description="Run a program with tf.data.TFRecordDataset accelerated.",
        usage="%(prog)s [options] (SCRIPT | -m MODULE) [its arguments]",
    )
    parser.add_argument("-m", dest="module", action="store_true", help="run a module, as python -m")
    parser.add_argument(
        "--report",
        action="store_true",
        help="at the end, tell on standard error what was fused, what was not, and why",
    )
    parser.add_argument("--report-to", metavar="FILE", help="the same, into a file")
    parser.add_argument(
        "--filesystem",
        action="append",
        default=[],
        metavar="SCHEME",
        help="let TensorFlow read URLs of a scheme, such as s3 or az (register_filesystem)",
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _accelerate(schemes: Sequence[str], report: Path | IO[str] | None) -> None:
    def begin() -> None:
        import tfio_store as tfs

        tfs.accelerate()
        for scheme in filter(None, (each.strip() for each in schemes)):
            tfs.register_filesystem(scheme)
        if report is not None:
            from tfio_store.tf.dataset.plan import stories

            told = stories()
            atexit.register(lambda: _write(report, told()))

    if "tensorflow" in sys.modules:
        begin()
    else:
        sys.meta_path.insert(0, _Finder("tensorflow", begin))


def _write(report: Path | IO[str], told: list[str]) -> None:
    text = "\n\n".join(told) or "no dataset read TFRecord files"
    title = "tfio_store.accelerate: the datasets of this program\n\n"
    if isinstance(report, Path):
        report.write_text(f"{title}{text}\n", encoding="utf-8")
    else:
        print(f"{title}{text}", file=report)


# When a module has been imported.


class _Finder(importlib.abc.MetaPathFinder):
    """Finds a module as the other finders do, and calls a function when it has been imported."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._then)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, then: Callable[[], None]) -> None:
        self._loader = loader
        self._then = then

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader  # as if nobody had been here
        self._loader.exec_module(module)
        self._then()
