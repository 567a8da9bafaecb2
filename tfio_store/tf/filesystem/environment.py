"""Registration by an environment variable, for programs whose code cannot be changed.

With ``TFIO_STORE_FILESYSTEMS=s3,gcs`` set, importing tfio_store registers these schemes: at once if
TensorFlow is imported already, or else when it is. This never imports TensorFlow by itself.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["VARIABLE", "heed_environment"]

VARIABLE = "TFIO_STORE_FILESYSTEMS"


def heed_environment() -> None:
    """Register what the variable names, now or once TensorFlow is imported."""
    if not named_schemes():
        return
    if "tensorflow" in sys.modules:
        register_named()
    else:
        sys.meta_path.insert(0, AfterImport("tensorflow", register_named))


def named_schemes() -> list[str]:
    return os.environ.get(VARIABLE, "").replace(",", " ").split()


def register_named() -> None:
    """Register all of them. If one fails, a warning says so, and the program goes on."""
    from tfio_store.tf.filesystem import register_filesystem

    for scheme in named_schemes():
        try:
            register_filesystem(scheme)
        except Exception as fault:
            warnings.warn(f"{VARIABLE}: {fault}", RuntimeWarning, stacklevel=2)


class AfterImport(MetaPathFinder):
    """Calls ``then`` once, after the first import of a module."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)  # the next finder answers, here and from now on
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            self._wrap(spec.loader)
        return spec

    def _wrap(self, loader: Loader) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self._then()

        loader.exec_module = exec_module  # type: ignore[method-assign]
