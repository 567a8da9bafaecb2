"""How Sphinx makes the site from these pages: `make docs`."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

from sphinx.util import inspect

ROOT = Path(__file__).parent.parent

project = "tfio_store"
author = "The tfio_store authors"
copyright = f"2026, {author}"  # noqa: A001 (Sphinx names it)
# the one place that holds the version, read without importing it
_found = re.search(r'__version__ = "(.+)"', (ROOT / "tfio_store/__init__.py").read_text("utf-8"))
assert _found is not None
version = release = _found[1]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

default_role = "py:obj"  # `RecordReader` in a docstring leads to it
autodoc_typehints = "none"
# The frameworks behind the doors: their packages are large, and only the docstrings are wanted.
autodoc_mock_imports = [
    "torch", "grain", "datasets", "ray", "dask", "pandas", "pyarrow", "pyspark", "apache_beam",
    "simplejpeg", "PIL",
]  # fmt: skip
# A mock holds no items, and this one is given some.
_collate = types.ModuleType("torch.utils.data._utils.collate")
_collate.__dict__.update(default_collate_fn_map={}, collate=None)
sys.modules[_collate.__name__] = _collate
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = f"tfio_store {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}
napoleon_use_ivar = True


def setup(app: Any) -> None:
    app.connect("autodoc-process-signature", _of_init)


def _of_init(_app: Any, what: str, _name: str, obj: Any, _options: Any, shown: Any, _: Any) -> Any:
    """A class whose base is a mock has the mock's signature, unless it is told."""
    if what != "class" or shown != "(*args, **kwargs)" or "__init__" not in vars(obj):
        return None
    own = inspect.signature(obj.__init__, bound_method=True)
    return inspect.stringify_signature(own, show_annotation=False), None
