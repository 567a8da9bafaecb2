"""A training job whose data, checkpoints, models and logs are all on S3."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import pytest

from tests.servers.place import Place
from tests.tf.run_program import run

tf = pytest.importorskip("tensorflow")

from tfio_store.tf.filesystem import register_filesystem  # noqa: E402

pytestmark = pytest.mark.tensorflow

EXAMPLES = 512


@pytest.fixture
def root(s3: Place) -> str:
    register_filesystem("s3", storage_options=s3.storage_options)
    return s3.url(uuid.uuid4().hex[:8])


def write_examples(path: str) -> None:
    """y = 3 x0 - 2 x1 + 1."""
    rng = np.random.default_rng(0)
    with tf.io.TFRecordWriter(path) as writer:
        for x in rng.normal(size=(EXAMPLES, 2)).astype(np.float32):
            feature = {
                "x": tf.train.Feature(float_list=tf.train.FloatList(value=x)),
                "y": tf.train.Feature(
                    float_list=tf.train.FloatList(value=[3 * x[0] - 2 * x[1] + 1])
                ),
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())


def examples(path: str) -> Any:
    spec = {
        "x": tf.io.FixedLenFeature([2], tf.float32),
        "y": tf.io.FixedLenFeature([1], tf.float32),
    }

    def parse(record: Any) -> tuple[Any, Any]:
        found = tf.io.parse_single_example(record, spec)
        return found["x"], found["y"]

    return tf.data.TFRecordDataset(path).map(parse).batch(32)


def model() -> Any:
    built = tf.keras.Sequential([tf.keras.layers.Input([2]), tf.keras.layers.Dense(1)])
    built.compile(tf.keras.optimizers.SGD(0.1), "mse")
    return built


class Scorer(tf.Module):  # type: ignore[name-defined]
    """A SavedModel without Keras."""

    def __init__(self, trained: Any) -> None:
        super().__init__()
        self.kernel, self.bias = (tf.Variable(value) for value in trained.get_weights())

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)])
    def __call__(self, x: Any) -> Any:
        return tf.matmul(x, self.kernel) + self.bias


def test_training_from_to_and_through_s3(root: str) -> None:
    pytest.importorskip("tensorboard")
    write_examples(f"{root}/train.tfrecord")
    trained = model()
    logs = tf.keras.callbacks.TensorBoard(f"{root}/logs")
    best = tf.keras.callbacks.ModelCheckpoint(f"{root}/best.keras", monitor="loss")
    backup = tf.keras.callbacks.BackupAndRestore(f"{root}/backup")
    history = trained.fit(
        examples(f"{root}/train.tfrecord"), epochs=5, verbose=0, callbacks=[logs, best, backup]
    )
    assert history.history["loss"][-1] < 1e-2

    trained.save(f"{root}/model.keras")
    trained.export(f"{root}/exported")
    tf.saved_model.save(Scorer(trained), f"{root}/saved")
    trained.save_weights(f"{root}/w.weights.h5")
    x = np.array([[0.5, -1.0]], np.float32)
    want = float(trained(x)[0, 0])
    options = s3_options(root)
    printed = run(LOAD, root=root, options=options, x=x.tolist())
    for line in printed.splitlines():
        assert abs(float(line.split()[1]) - want) < 1e-5, line
    assert [line.split()[0] for line in printed.splitlines()] == [
        "keras",
        "best",
        "saved",
        "export",
    ]
    assert scalars(f"{root}/logs/train", "epoch_loss") == pytest.approx(history.history["loss"])


LOAD = """
tfs.register_filesystem("s3", storage_options=ARGS["options"])
root, x = ARGS["root"], tf.constant(ARGS["x"])
print("keras", float(tf.keras.models.load_model(root + "/model.keras")(x)[0, 0]))
print("best", float(tf.keras.models.load_model(root + "/best.keras")(x)[0, 0]))
print("saved", float(tf.saved_model.load(root + "/saved")(x)[0, 0]))
exported = tf.saved_model.load(root + "/exported")
print("export", float(exported.serve(x)[0, 0]))
"""


def s3_options(root: str) -> dict[str, object]:
    from tfio_store.tf import filesystem

    assert filesystem._host is not None
    return dict(filesystem._host.mounts["s3"].storage.options)  # type: ignore[arg-type]


def scalars(folder: str, tag: str) -> list[float]:
    """Read back as TensorBoard does it, by TensorFlow's own reader."""
    found = []
    for path in sorted(tf.io.gfile.glob(f"{folder}/events*")):
        for event in tf.compat.v1.train.summary_iterator(path):
            for value in event.summary.value:
                if value.tag == tag:
                    found.append(float(tf.make_ndarray(value.tensor)))
    return found


def test_checkpoint_manager(root: str) -> None:
    value = tf.Variable(0)
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(value=value), f"{root}/ckpt", max_to_keep=3
    )
    for step in range(10):
        value.assign(step)
        manager.save(checkpoint_number=step)
    assert manager.checkpoints == [f"{root}/ckpt/ckpt-{i}" for i in (7, 8, 9)]
    indexes = sorted(tf.io.gfile.glob(f"{root}/ckpt/*.index"))
    assert indexes == [f"{root}/ckpt/ckpt-{i}.index" for i in (7, 8, 9)]
    assert len(tf.io.gfile.listdir(f"{root}/ckpt")) == 7  # an index and a shard each, the state
    again = tf.Variable(-1)
    latest = tf.train.latest_checkpoint(f"{root}/ckpt")
    tf.train.Checkpoint(value=again).restore(latest).assert_consumed()
    assert again.numpy() == 9


def test_a_large_checkpoint(root: str) -> None:
    weights = tf.Variable(tf.random.normal([3 << 20]))  # 12 MiB
    others = [tf.Variable(tf.random.normal([100 + i])) for i in range(200)]
    tf.train.Checkpoint(weights=weights, others=others).write(f"{root}/big")
    empty = tf.Variable(tf.zeros([3 << 20]))
    zeros = [tf.Variable(tf.zeros([100 + i])) for i in range(200)]
    tf.train.Checkpoint(weights=empty, others=zeros).read(f"{root}/big").assert_consumed()
    assert bool(tf.reduce_all(weights == empty))
    assert all(bool(tf.reduce_all(a == b)) for a, b in zip(others, zeros, strict=True))


def test_an_input_pipeline_is_checkpointed(root: str) -> None:
    write_examples(f"{root}/train.tfrecord")
    dataset = tf.data.TFRecordDataset(f"{root}/train.tfrecord").enumerate().shuffle(64, seed=1)
    iterator = iter(dataset)
    for _ in range(100):
        next(iterator)
    saved = tf.train.Checkpoint(iterator=iterator).save(f"{root}/pipeline")
    want = [int(next(iterator)[0]) for _ in range(50)]
    other = iter(dataset)
    tf.train.Checkpoint(iterator=other).restore(saved)
    assert [int(next(other)[0]) for _ in range(50)] == want


def test_snapshots_caches_and_saved_datasets(root: str) -> None:
    numbers = tf.data.Dataset.range(1000)
    numbers.save(f"{root}/saved")
    assert list(tf.data.Dataset.load(f"{root}/saved").as_numpy_iterator()) == list(range(1000))
    for _ in range(2):
        cached = numbers.cache(f"{root}/cache")
        assert list(cached.as_numpy_iterator()) == list(range(1000))


def test_events_show_while_they_are_written(root: str) -> None:
    writer = tf.summary.create_file_writer(f"{root}/live")
    with writer.as_default():
        for step in range(5):
            tf.summary.write("loss", tf.constant(float(step)), step=step)
            writer.flush()
            assert scalars(f"{root}/live", "loss") == list(range(step + 1))
        tf.summary.write("loss", tf.constant(float(5)), step=5)
    writer.close()
    assert scalars(f"{root}/live", "loss") == list(range(6))


def test_a_reader_follows_a_growing_event_file(root: str) -> None:
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    writer = tf.summary.create_file_writer(f"{root}/live")
    with writer.as_default():
        tf.summary.write("loss", tf.constant(float(1)), step=1)
        writer.flush()
        (path,) = tf.io.gfile.glob(f"{root}/live/events*")
        events = loader.EventFileLoader(path)

        def steps() -> list[int]:
            return [event.step for event in events.Load() if event.HasField("summary")]

        assert steps() == [1]
        assert steps() == []
        for step in (2, 3):
            tf.summary.write("loss", tf.constant(float(step)), step=step)
        writer.flush()
        assert steps() == [2, 3]
