"""coverage_c.py OBJECTS FLOOR: what gcov counted of each file in ext/. Fails below FLOOR percent.

A file that several modules are built of counts a line as reached where any of them reached it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path


def counted(objects: Path) -> dict[str, dict[int, bool]]:
    """For each C file of ours: its lines of code, and whether they were reached."""
    files: dict[str, dict[int, bool]] = defaultdict(dict)
    for notes in sorted(objects.rglob("*.gcno")):
        command = ["gcov", "--json-format", "--stdout", str(notes)]
        answer = subprocess.run(command, capture_output=True, check=True, text=True)
        for file in json.loads(answer.stdout)["files"]:
            name = file["file"]
            if not name.startswith("ext/") or Path(name).name.startswith("_"):
                continue  # a system's header, or what Cython made
            lines = files[name]
            for line in file["lines"]:
                number = line["line_number"]
                lines[number] = lines.get(number, False) or line["count"] > 0
    return files


def main(objects: str, floor: str) -> int:
    files = counted(Path(objects))
    for name, lines in sorted(files.items()):
        print(f"{name:48} {len(lines):5} {sum(lines.values()) / len(lines):6.0%}")
    reached = sum(sum(lines.values()) for lines in files.values())
    total = sum(map(len, files.values()))
    percent = 100 * reached / total if total else 0.0
    print(f"{'all of our C':48} {total:5} {percent:6.1f}%")
    if percent < float(floor):
        print(f"the floor is {floor} %", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
