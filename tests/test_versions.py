"""What the documents, the matrix and the workflows say of versions is one thing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PYTHONS = [
    name.rpartition(" ")[2]
    for name in PROJECT["project"]["classifiers"]
    if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", name)
]
FREE_THREADED = "3.14t"
"""Its own wheels, by Python's name for it. The classifiers name none."""
BUILDS = [*PYTHONS, FREE_THREADED]
FRAMEWORKS = {"tensorflow", "torch", "grain", "hf", "ray", "beam", "spark", "dask"}
TOX: dict[str, Any] = PROJECT["tool"]["tox"]
ROWS: list[str] = TOX["env_list"]
OURS = {"demo", "test", "bench", "engines", "docs", "lint", "dev"}
"""Extras for those who work on the package."""
EXTRAS = set(PROJECT["project"]["optional-dependencies"]) - FRAMEWORKS - OURS


def test_the_matrix_has_each_python_that_the_package_names() -> None:
    assert sorted(f"python-{python}" for python in BUILDS) == sorted(
        row for row in ROWS if row.startswith("python-")
    )
    assert all(TOX["env"][f"python-{python}"]["base_python"] == [python] for python in BUILDS)


def test_the_matrix_has_the_oldest_tensorflow() -> None:
    (bound,) = PROJECT["project"]["optional-dependencies"]["tensorflow"]
    pins, oldest = TOX["env"]["tf216"]["deps"]
    assert oldest.startswith(bound.replace(">=", "=="))
    pinned = (ROOT / pins.removeprefix("-c{tox_root}/")).read_text(encoding="utf-8")
    assert oldest in pinned.splitlines()


def test_make_runs_the_same_tests_on_the_oldest_tensorflow() -> None:
    command = ["make", "-s", "--eval", "told: ; @echo $(BRIDGE)", "told"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (((*_, given),)) = TOX["env"]["tf216"]["commands"]
    assert told.split() == given["default"]


def test_the_lowest_row_has_every_extra_that_no_framework_brings() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (lowest,) = re.findall(r"^LOWEST := (.+)$", makefile, re.MULTILINE)
    assert set(lowest.split()) == EXTRAS


def test_the_recipe_for_conda_has_the_bounds_of_the_package() -> None:
    recipe = (ROOT / "conda/recipe.yaml").read_text(encoding="utf-8")
    run = recipe.partition("  run:\n")[2].partition("\ntests:")[0]
    wanted = [bound.replace(">=", " >=") for bound in PROJECT["project"]["dependencies"]]
    assert re.findall(r"- (\S+ .+)", run) == wanted
    assert f"  license: {PROJECT['project']['license']}\n" in recipe


def test_the_hosted_builds_are_for_each_python() -> None:
    builds = PROJECT["tool"]["cibuildwheel"]["build"].split()
    assert {f"cp{python.replace('.', '')}-*" for python in BUILDS} <= set(builds)


def test_the_checks_run_rows_that_there_are() -> None:
    checks = (ROOT / ".github/workflows/checks.yml").read_text(encoding="utf-8")
    (rows,) = re.findall(r"row: \[(.+)\]", checks)
    assert set(rows.split(", ")) <= set(ROWS)
