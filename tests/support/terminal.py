"""The command on a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

COMMAND = [sys.executable, "-m", "tfio_store"]


def on_terminal(
    columns: int, arguments: Sequence[object], code: int = 0, folder: Path | None = None
) -> str:
    """What the command shows on a terminal of so many columns, without its styles."""
    outside, inside = pty.openpty()
    termios.tcsetwinsize(inside, (30, columns)) if hasattr(termios, "tcsetwinsize") else None
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns)}
    with subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stdout=inside, stderr=inside, env=environment, cwd=folder
    ) as process:
        os.close(inside)
        shown = b""
        while True:
            try:
                piece = os.read(outside, 1 << 16)
            except OSError:  # what Linux says at the end
                break
            if not piece:
                break
            shown += piece
        os.close(outside)
        assert process.wait(60) == code, shown
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode()).replace("\r\n", "\n")
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())
