"""Run the notebooks of examples/ and keep what they show.

    python -m scripts.notebooks [--check]

It runs each notebook's cells in order, in a process of its own. It needs neither Jupyter nor a
kernel. With ``--check`` nothing is written.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"


def shown(value: object) -> dict[str, Any]:
    """The forms of a value that a notebook keeps, by MIME type."""
    forms: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
    html = getattr(value, "_repr_html_", None)
    png = getattr(value, "_repr_png_", None)
    if html is not None:
        forms["text/html"] = html().splitlines(keepends=True)
    if png is not None:
        forms["image/png"] = base64.b64encode(png()).decode()
    return forms


def run_cell(code: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """What a cell prints, and the value of its last line."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        lines = text.splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines})
    if value is not None:
        outputs.append(
            {
                "output_type": "execute_result",
                "execution_count": number,
                "metadata": {},
                "data": shown(value),
            }
        )
    return outputs


def run(path: Path, *, write: bool) -> None:
    """Run a notebook in this process. Raises what a cell raises."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {"__name__": "__main__"}
    sys.path.insert(0, str(path.parent))
    for number, cell in enumerate(cells, 1):
        cell["outputs"] = run_cell("".join(cell["source"]), names, number)
        cell["execution_count"] = number
    if write:
        text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True)
        path.write_text(text + "\n", encoding="utf-8")


def main(arguments: list[str]) -> None:
    paths = [Path(name) for name in arguments if not name.startswith("-")]
    if paths:
        for path in paths:
            run(path, write="--check" not in arguments)
        return
    for path in sorted(EXAMPLES.glob("*.ipynb")):  # each as if its kernel had just started
        command = [sys.executable, "-m", "scripts.notebooks", str(path), *arguments]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
