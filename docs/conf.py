"""How Sphinx makes the site from these pages: `make docs`."""

from __future__ import annotations

import re
from pathlib import Path

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

autodoc_typehints = "none"
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
