"""Names of the package that are imported when they are first asked for."""

from __future__ import annotations

import pytest

from tests.support.started import python

ASK_AT_ONCE = """
import sys, threading
import tfio_store as tfs
sys.setswitchinterval(1e-6)
names = sys.argv[1:]
begin, wrong = threading.Barrier(len(names)), []

def ask(name):
    begin.wait()
    try:
        getattr(tfs, name)
    except BaseException as error:
        wrong.append(repr(error))

threads = [threading.Thread(target=ask, args=[name]) for name in names]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit("; ".join(wrong) or 0)
"""


@pytest.mark.parametrize("attempt", range(4))
def test_threads_may_ask_at_once(attempt: int) -> None:
    names = ["Feature", "Schema", "decode_examples", "RecordReader"][: 2 + 2 * (attempt % 2)]
    done = python(ASK_AT_ONCE, *names)
    assert done.returncode == 0, done.stderr
