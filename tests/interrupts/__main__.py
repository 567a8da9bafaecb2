"""``python -m tests.interrupts SCENARIO FIRST STEP FOLDER``: interrupts a scenario once at every
``STEP``-th line of the package that it runs through, beginning with number ``FIRST``.

The lines are those of the main thread, as only there Python raises KeyboardInterrupt. A scenario
that does not end prints where each thread stands, and ends the process.
"""

from __future__ import annotations

import dis
import faulthandler
import functools
import gc
import os
import shutil
import sys
import time
from collections import Counter
from types import CodeType, FrameType
from typing import Any

from tests.interrupts.scenarios import SCENARIOS
from tfio_store.errors import DataLossError

PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), "tfio_store")
PATIENCE_S = 60.0
"""After which a scenario is said to hang. One takes a part of a second."""

Line = tuple[str, int, int]
"""A file, a line, and how often it came before in the run, at most `TIMES`."""

TIMES = 2
NOTHING = ("LOAD_CONST", None)


class Lines:
    """Notes the package's lines that this thread runs through, or is stopped at one of them."""

    def __init__(self, stop: Line | None = None) -> None:
        self.stop = stop
        self.stopped = False
        self.seen: Counter[tuple[str, int]] = Counter()
        self.order: list[Line] = []
        # held here: the interpreter borrows them, and lets go of what raises
        self.called, self.line = self._called, self._line

    def __enter__(self) -> Lines:
        sys.settrace(self.called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _called(self, frame: FrameType, event: str, argument: object) -> Any:
        return self.line if frame.f_code.co_filename.startswith(PACKAGE) else None

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line" and frame.f_lasti not in exits_of(frame.f_code):
            place = frame.f_code.co_filename, frame.f_lineno
            line = (*place, self.seen[place])
            self.seen[place] += 1
            if line[2] < TIMES and not self.stopped:
                self.order.append(line)
                if line == self.stop:
                    self.stopped = True
                    raise KeyboardInterrupt
        return self.line


@functools.cache
def exits_of(code: CodeType) -> set[int]:
    """Where a ``with`` statement begins to call ``__exit__``. Python looks for signals behind calls
    and jumps, so none comes between the block and the call, and a lock is always released."""
    found = list(dis.get_instructions(code))
    nothing = {at for at, one in enumerate(found) if (one.opname, one.argval) == NOTHING}
    again = {at for at, one in enumerate(found) if one.opname in ("DUP_TOP", "COPY")}
    exits = {at for at in nothing if at + 1 in nothing | again and at - 1 not in nothing}
    before = {at - 1 for at in exits if found[at - 1].opname in ("SWAP", "ROT_TWO", "POP_BLOCK")}
    return {found[at].offset for at in exits | before}


def main(name: str, first: int, step: int, folder: str) -> None:
    scenario = SCENARIOS[name]
    for number in range(2):  # the first run imports, and starts what stays
        with Lines() as lines:
            scenario.run(os.path.join(folder, f"{name}-{number}"))
    chosen = lines.order[first::step]
    print(f"{name}: {len(lines.order)} lines, of which {len(chosen)} are tried", flush=True)
    for number, line in enumerate(chosen):
        at = f"{os.path.relpath(line[0], os.path.dirname(PACKAGE))}:{line[1]}, time {line[2] + 1}"
        print(f"{number}: {at}", flush=True)
        faulthandler.dump_traceback_later(PATIENCE_S, exit=True)
        place = os.path.join(folder, f"{name}-{number}")
        shutil.rmtree(place, ignore_errors=True)
        interrupted = Lines(line)
        try:
            with interrupted:
                scenario.run(place)
        except (KeyboardInterrupt, DataLossError):
            pass
        gc.collect()
        scenario.check(place)
        shutil.rmtree(place, ignore_errors=True)
    faulthandler.cancel_dump_traceback_later()
    print("done", time.strftime("%H:%M:%S"), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
