"""Installs what was built into an empty environment, and works with it there."""

from __future__ import annotations

import shutil
from pathlib import Path

from scripts.wheels.build import ROOT, plain_environment, run

__all__ = ["try_wheel", "try_without_compiler"]

PROGRAM = ROOT / "scripts/wheels/program.py"
WARNING = "RuntimeWarning: tfio_store runs without its compiled"


def try_wheel(wheel: Path, python: str, folder: Path, *, tests: list[str]) -> str:
    """Runs the program, and ``tests`` if there are any. The answer is what the last of it said."""
    inside = _installed(wheel, python, folder, _empty_home(folder))
    said = run(inside, "-I", PROGRAM, cwd=folder, env=_empty_home(folder))
    assert "compiled core" in said, f"{wheel.name} does without its extensions: {said}"
    if tests:
        install = (
            "install",
            "--quiet",
            "-c",
            ROOT / "requirements/constraints.txt",
            f"{wheel}[test]",
        )
        run(inside, "-m", "pip", *install, env=plain_environment())
        said = _run_tests(inside, folder, tests)
    return said.strip().splitlines()[-1]


def try_without_compiler(sdist: Path, python: str, folder: Path) -> str:
    """Installs the source where there is no compiler: it works, and warns once."""
    nothing = {**_empty_home(folder), "PATH": str(folder / "bin"), "CC": "no-compiler"}
    inside = _installed(sdist, python, folder, nothing)
    said = run(inside, "-I", PROGRAM, cwd=folder, env=nothing)
    assert said.count(WARNING) == 1, f"{sdist.name} without a compiler: {said}"
    assert "pure core" in said, f"{sdist.name} has a core though there is no compiler: {said}"
    return said.strip().splitlines()[-1]


def _installed(what: Path, python: str, folder: Path, environment: dict[str, str]) -> Path:
    """By pip, as users do, with an empty home and nothing from a cache."""
    shutil.rmtree(folder, ignore_errors=True)
    run(python, "-m", "venv", folder)
    inside = folder / "bin/python"
    install = ("install", "--quiet", "--no-cache-dir", "--no-compile", what)
    run(inside, "-m", "pip", *install, env=environment)
    return inside


def _run_tests(python: Path, folder: Path, tests: list[str]) -> str:
    """The tests lie in another folder than the package's source, so that they find the wheel's."""
    copy = folder / "suite"
    shutil.copytree(ROOT / "tests", copy / "tests")
    shutil.copy(ROOT / "pyproject.toml", copy)
    chosen = ("-m", "not tensorflow and not long", "-q", "-n", "2", "-p", "no:cacheprovider")
    return run(python, "-m", "pytest", *chosen, *tests, cwd=copy, env=plain_environment())


def _empty_home(folder: Path) -> dict[str, str]:
    """Where nobody has worked before."""
    home = {"HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "home/cache")}
    return {**plain_environment(), **home}
