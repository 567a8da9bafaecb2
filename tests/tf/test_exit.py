"""A program ends, whatever its iterators do at that moment.

TensorFlow's threads ask Python for blocks while the interpreter leaves. A thread that Python ends
there is waited for without end by whoever destroys the iterator.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.framed import framed
from tests.tf.run_program import run

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

RECORDS = [tfs.encode_example({"x": [i], "text": [b"%06d" % i * 500]}) for i in range(3000)]

PATHS = {
    "compressed blocks": "ours()",
    "batches of them": "ours(batch_size=16)",
    "shuffled": "ours(shuffle=True, seed=1)",
    "shuffled batches": "ours(shuffle=100, seed=1, batch_size=16)",
    "parsed": "ours(batch_size=16, schema={'x': tf.io.FixedLenFeature([1], tf.int64)})",
    "without the damaged": "ours(on_corrupt='skip')",
    "mixed": "tfs.mix_datasets([(ours(), 1.0), (ours(shuffle=True), 2.0)])",
    "a foreign stream": "there(ARGS['foreign'])",
    "batches of a foreign stream": "there(ARGS['foreign'], batch_size=16)",
    "fsspec": "there(ARGS['url'])",
    "raw blocks by fsspec": "there(ARGS['raw'])",
    "a foreign stream by fsspec": "there(ARGS['stream'])",
    "obstore": "there(ARGS['url'], 'obstore')",
    "the filesystem": "filesystem()",
    "tf.data service": "service()",
}

# A forked child ends as those of multiprocessing do, by os._exit. One that takes its interpreter
# down waits for the threads of any iterator that its parent has, TensorFlow's own too.
WAYS = {
    "alive": "",
    "half read": "for _ in range(700): next(iterator)",
    "given up": "del iterator",
    "in another thread": """
        import threading
        def consume():
            for _ in iterator: pass
        threading.Thread(target=consume, daemon=True).start()
    """,
    "kept longer than any module": "import builtins; builtins.kept = iterator",
    "in a later handler": "keep.append(iterator)",
    "in a forked child": """
        import multiprocessing
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(0.1,))
        child.start()
        child.join()
        sys.exit(child.exitcode)
    """,
    "after an exception": "raise ZeroDivisionError",
    "at SIGTERM": """
        import signal
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in iterator: pass
    """,
}
WITHOUT_END = [("tf.data service", "in a later handler")]
"""A client of tf.data service asks a worker that answers CANCELLED again and again. Any other code
would have `ignore_errors` of any pipeline go on without end."""
CODES = {"after an exception": 1, "at SIGTERM": 7}

# Forks before TensorFlow has made anything, so that it is imported once for all.
PROGRAM = """
import atexit, contextlib, io, signal, textwrap, time, traceback
keep = []
def use():
    for iterator in keep:
        with contextlib.suppress(tf.errors.OpError):
            for _ in iterator: pass
atexit.register(use)

from tfio_store.tf.dataset import ops
assert ops.bridge() == ARGS["bridge"]

def there(url, backend="fsspec", **options):
    where = tfs.Storage(ARGS["options"] if "://" in url else None, backend=backend)
    return tfs.TFRecordDataset(url, storage=where, **options)
def ours(**options):
    return there(ARGS["local"], **options)
def filesystem():
    tfs.register_filesystem("s3", storage_options=ARGS["options"])
    return tf.data.TFRecordDataset(ARGS["files"], "GZIP", num_parallel_reads=4)
def service():
    api = tf.data.experimental.service
    keep_service = api.DispatchServer()
    address = keep_service.target.split("://")[1]
    worker = api.WorkerServer(api.WorkerConfig(dispatcher_address=address))
    globals().update(servers=[keep_service, worker])
    return ours().apply(api.distribute("parallel_epochs", keep_service.target))

def begin(path):
    iterator = iter(eval(path).repeat().prefetch(50))
    next(iterator)
    return iterator

def results(children):
    answers, began = [None] * len(children), time.monotonic()
    while None in answers:
        for i, (name, pid, said) in enumerate(children):
            if answers[i] is None:
                found, status = os.waitpid(pid, os.WNOHANG)
                code, now = os.waitstatus_to_exitcode(status), time.monotonic()
                if not found and now > began + 280:
                    if ARGS["stacks"]:
                        os.system(f"py-spy dump -n -p {pid} >&2")
                    os.kill(pid, signal.SIGKILL)
                    found, code = os.waitpid(pid, 0)[0], "hung"
                if found:
                    with contextlib.suppress(OSError, ValueError):
                        now -= float(open(said + ".over").read())
                    answers[i] = name, code, now, open(said).read()
        time.sleep(0.02)
    return answers

sys.stdout.flush()
children, answers, case = [], [], None
for name, path, way in ARGS["cases"]:
    if len(children) == ARGS["at_once"]:
        answers += results(children)
        children = []
    said = f"{ARGS['folder']}/stderr-{len(answers)}-{len(children)}"
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(said, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), 2)
        case = path, textwrap.dedent(way), said + ".over"
        break
    children.append((name, pid, said))
if case is None:
    print(json.dumps(answers + results(children)))
    os._exit(0 if sys.stdout.flush() is None else 1)
iterator = begin(case[0])
try:
    exec(case[1])
finally:
    print(time.monotonic(), file=open(case[2], "w"))
"""


@pytest.fixture
def sources(s3: Place, tmp_path: Path) -> dict[str, Any]:
    """What `PROGRAM` reads."""
    where: dict[str, Any] = {"storage_options": s3.storage_options}
    given: dict[str, Any] = {"options": s3.storage_options, "folder": str(tmp_path)}
    given["local"], given["url"], given["raw"] = str(tmp_path / "d"), s3.url("d"), s3.url("raw")
    for url, compression, options in (
        (given["local"], "GZIP", {}),
        (given["url"], "GZIP", where),
        (given["raw"], None, where),
    ):
        with tfs.ShardedWriter(url, num_shards=4, compression=compression, **options) as writer:
            writer.write_batch(RECORDS)
    stream = gzip.compress(framed(RECORDS), 1)
    (tmp_path / "foreign.gz").write_bytes(stream)
    given["foreign"] = str(tmp_path / "foreign.gz")
    given["stream"] = s3.put("stream.gz", stream)
    given["files"] = [s3.url(name) for name in s3.names() if name.startswith("d-")]
    return given


def assert_all_end(
    cases: list[tuple[str, str]], sources: dict[str, Any], **more: Any
) -> list[float]:
    """That processes of these (path, way) end as they should, and say nothing. How many seconds
    each took from the last line of its program."""
    program = {"at_once": 4, "bridge": "native", "stacks": False, **sources, **more}
    named = [(json.dumps([path, way]), PATHS[path], WAYS[way]) for path, way in cases]
    env = {} if program["bridge"] == "native" else {"TFIO_STORE_TF_BRIDGE": "off"}
    answers = json.loads(run(PROGRAM, env=env, timeout=3600, fresh=True, cases=named, **program))
    assert len(answers) == len(cases)
    wrong = []
    for (path, way), (_, code, _, said) in zip(cases, answers, strict=True):
        bad = ("Exception ignored", "terminate called", "Fatal", "Error in sys", "dumped")
        loud = way == "in another thread" and "Traceback" in said
        if code != CODES.get(way, 0) or loud or any(word in said for word in bad):
            wrong.append((path, way, code, said[-2000:]))
    assert not wrong, wrong
    return [seconds for _, _, seconds, _ in answers]


def test_every_path_and_every_way_ends(sources: dict[str, Any]) -> None:
    """Processes that start TensorFlow's threads and leave: each takes a second or two."""
    alive = [(path, "alive") for path in [*PATHS][::2]]
    assert_all_end(alive + [("compressed blocks", way) for way in WAYS if way != "alive"], sources)


def test_a_thread_that_reads_ends_in_silence(sources: dict[str, Any]) -> None:
    """Most of these were ended by an error that they printed."""
    assert_all_end([("obstore", "in another thread")] * 3, sources)


WITHOUT_THE_OPS = ["shuffled", "fsspec"]


def test_those_without_the_ops_end(sources: dict[str, Any]) -> None:
    cases = [(path, "alive") for path in WITHOUT_THE_OPS]
    cases += [("a foreign stream", "given up"), ("compressed blocks", "after an exception")]
    assert_all_end(cases, sources, bridge="tensorflow")


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("path", PATHS)
def test_every_path_ends_in_every_way_three_times(path: str, sources: dict[str, Any]) -> None:
    ways = [(path, way) for way in WAYS if (path, way) not in WITHOUT_END] * 3
    took = assert_all_end(ways, sources)
    print(f"{path}: {len(ways)} programs ended, the slowest after {max(took):.2f} s")
