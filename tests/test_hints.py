"""Commands that messages, help and pages tell somebody to type: each is one, and pastes."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from packaging.requirements import Requirement

import tfio_store as tfs
from tfio_store.cli.program import COMMANDS, program

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = sorted((ROOT / "tfio_store").rglob("*.py"))
LEFT_OPEN = re.compile(r"\b(?:COMMAND|NUMBERS|OTHER|SOURCE|TARGET|URL)\b|[{|…]|: |<\w")
"""What a person has to fill in, or a message."""


def texts_of(source: Path) -> Iterator[str]:
    """The strings of a module. Of an f-string, each value is its expression in braces."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                part.value if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
                for part in node.values
                if isinstance(part, ast.Constant | ast.FormattedValue)
            )
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.value


def code_of(page: Path) -> Iterator[str]:
    """The commands of a page: the lines of its blocks for a shell, and code in a line."""
    text = page.read_text(encoding="utf-8")
    fenced = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
    for language, block in fenced.findall(text):
        if language in ("bash", "console", "sh"):
            lines = block.replace("\\\n", " ").splitlines()
            yield from (line.strip().removeprefix("$ ") for line in lines)
    yield from re.findall(r"(?<!`)`([^`\n]+)`(?!`)", fenced.sub("", text))


MESSAGES = sorted({text for source in SOURCES for text in texts_of(source)})
TYPED = sorted({code for page in PAGES for code in code_of(page)})


def typed(command: str) -> list[str]:
    """What a shell makes of it: the words of the command that it would run."""
    name = command.split()[0]
    shown = f'{name}() {{ printf "%s\\0" "$@"; }}\n{command}'.replace(
        "tfio-store()", "tfio_store()"
    )
    shown = re.sub(r"(?m)^tfio-store ", "tfio_store ", shown)
    done = subprocess.run(["/bin/sh", "-c", shown], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout.split("\0")[:-1]


# pip


PIP = re.compile(
    r"pip install((?: +(?:-[\w-]+|'[^'\n]+'|\"[^\"\n]+\"|\.\[[\w,]+\]|tfio[_-]store\S*))+)"
)
INSTALLS = sorted({found[0] for text in (*MESSAGES, *TYPED) for found in PIP.finditer(text)})


@pytest.mark.parametrize("command", INSTALLS)
def test_what_is_to_be_installed_is_an_extra_of_ours(command: str) -> None:
    if "{" in command:
        return  # tests/test_extras.py reads these messages
    section = (
        (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[project.optional-")[2]
    )
    there = set(
        re.findall(r"^([a-z0-9-]+) = \[", section.partition("\n[project.scripts]")[0], re.M)
    )
    wanted = [word for word in typed(command)[1:] if not word.startswith("-")]
    assert wanted
    for word in wanted:
        assert "[" not in word or re.search(rf"['\"]{re.escape(word)}", command), (
            "zsh takes it for a pattern"
        )
        found = Requirement(word.replace(".[", "tfio_store[") if word.startswith(".") else word)
        if found.name.replace("-", "_") == "tfio_store":
            assert found.extras <= there


# tfio-store


def test_commands_that_messages_name_are_there() -> None:
    named = {
        word
        for text in MESSAGES
        for word in re.findall(r"(?<![\w/.:-])tfio-store ([a-z]\w*)", text)
    }
    assert {"count", "schema", "salvage", "completion"} <= named <= set(COMMANDS)


LINES = [one for one in TYPED if one.startswith("tfio-store ") and not LEFT_OPEN.search(one)]


@pytest.mark.parametrize("line", LINES)
def test_commands_of_pages_are_understood(line: str) -> None:
    """Each option is one, and takes such a value. Other tests run the pages."""
    name, *arguments = typed(line.partition(" | ")[0].partition(" > ")[0].partition("  #")[0])
    if name.startswith("-"):
        assert name in ("--help", "--version", "-h")
        return
    command: Any = program.get_command(click.Context(program), name)
    assert command is not None
    try:
        command.make_context(name, arguments, parent=click.Context(program))
    except click.exceptions.Exit:
        pass  # --help
    except click.MissingParameter:
        assert not any(not one.startswith("-") for one in arguments) or "copy" in line


# Python


MODULES = sorted(
    {found for text in (*MESSAGES, *TYPED) for found in re.findall(r"python3? -m ([\w.]+)", text)}
)


def test_modules_to_run_are_there() -> None:
    assert "tfio_store.accelerate" in MODULES
    ours = [name for name in MODULES if (ROOT / name.partition(".")[0]).is_dir()]
    assert [name for name in ours if importlib.util.find_spec(name) is None] == []


def test_functions_that_messages_name_are_there() -> None:
    named = {
        found
        for text in MESSAGES
        if " " in text  # others name formats
        for found in re.findall(
            r"(?<![\w./\[\"'-])(?:tfio_store|tfs)\.([A-Za-z]\w*(?:\.\w+)*)", text
        )
    }
    named -= {"stores"}  # an entry point
    assert len(named) > 30
    assert [name for name in sorted(named) if not is_there(name)] == []


def is_there(name: str) -> bool:
    """Whether a module, or what it says, has this name. Nothing is imported: there may be no
    TensorFlow."""
    folder, parts = ROOT / "tfio_store", name.split(".")
    if parts[0] in tfs.__all__:
        return True
    while parts and (folder / parts[0]).is_dir():
        folder /= parts.pop(0)
    module = folder / "__init__.py"
    for suffix in ("py", "pyi"):
        if parts and (folder / f"{parts[0]}.{suffix}").is_file():
            module = folder / f"{parts.pop(0)}.{suffix}"
    words = set(re.findall(r"\w+", module.read_text(encoding="utf-8")))
    return words.issuperset(parts[:1]) and module != ROOT / "tfio_store/__init__.py"


# Paths


ODD = (
    "a b",
    "it's",
    'say "x"',
    "$HOME `id` $(id)",
    "ünï\u4e2d",
    "-n",
    "*[a]?",
    "two\nlines",
    "a;b&c|d",
)


@pytest.mark.parametrize("name", ODD)
def test_a_command_that_names_a_path_pastes(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name / "cache"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    with pytest.raises(PermissionError) as raised:
        tfs.Storage(cache=tfs.LocalCache(folder))
    found = re.search(r"chmod go-w .*(?=, or pass a folder)", str(raised.value), re.DOTALL)
    assert found is not None
    subprocess.run(["/bin/sh", "-ec", found[0]], check=True, cwd="/")
    tfs.Storage(cache=tfs.LocalCache(folder))
