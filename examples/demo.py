"""The main job, end to end: images to shards on S3, and a Keras model trained from them.

Starts an S3 server on this machine (moto, over HTTP), writes scikit-learn's digits (1,797 images
of 8x8 pixels, as PNG bytes with their labels) as 8 GZIP shards, lists the bucket, and trains from
it.
"""

from __future__ import annotations

import io
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

URL = "s3://demo/digits/train"
SHARDS = 8
EPOCHS = 15
BATCH = 64


class Clock:
    """Where the time goes, step by step."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, float]] = []

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        print(f"\n== {name}", flush=True)
        begin = time.perf_counter()
        yield
        self.steps.append((name, time.perf_counter() - begin))

    def print(self) -> None:
        total = sum(seconds for _, seconds in self.steps)
        print("\n== where time went")
        for name, seconds in self.steps:
            print(f"  {name:<44} {seconds:6.2f} s  {'#' * round(30 * seconds / total)}")
        print(f"  {'total':<44} {total:6.2f} s")


def start_s3() -> dict[str, object]:
    """An S3 server with an empty bucket; returns the storage options that reach it."""
    import s3fs
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line a request is no progress bar
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options: dict[str, object] = {
        "key": "demo",
        "secret": "demo",
        "endpoint_url": f"http://{host}:{port}",
    }
    s3fs.S3FileSystem(**options).mkdir("demo")
    return options


def png(pixels) -> bytes:  # type: ignore[no-untyped-def]
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray((pixels * 15.9).astype("uint8")).save(out, "PNG")
    return out.getvalue()


def write(options: dict[str, object]) -> None:
    from sklearn.datasets import load_digits
    from tqdm import tqdm

    import tfio_store as tfs

    digits = load_digits()
    with tfs.ShardedWriter(
        URL, num_shards=SHARDS, compression="GZIP", storage_options=options
    ) as writer:
        rows = zip(digits.images, digits.target, strict=True)
        for image, label in tqdm(rows, "writing", total=len(digits.target), unit="record"):
            writer.write({"image": png(image), "label": int(label)})
    print(f"committed {writer.manifest.records} records in {len(writer.manifest.shards)} shards")


def show(options: dict[str, object]) -> None:
    import s3fs

    for info in s3fs.S3FileSystem(**options).ls("demo/digits", detail=True, refresh=True):
        print(f"  {info['size']:>8,} bytes  s3://{info['name']}")


def dataset(first: int, last: int, options: dict[str, object]):  # type: ignore[no-untyped-def]
    """Shards first … last-1 as a tf.data.Dataset of (image, label)."""
    import tensorflow as tf

    import tfio_store as tfs

    features = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }

    def parse(record):  # type: ignore[no-untyped-def]
        example = tf.io.parse_single_example(record, features)
        image = tf.io.decode_png(example["image"], channels=1)
        return tf.cast(image, tf.float32) / 255.0, example["label"]

    shards = [f"{URL}-{i:05d}-of-{SHARDS:05d}.tfrecord" for i in range(first, last)]
    records = tfs.TFRecordDataset(shards, "GZIP", storage_options=options)
    # what is made of the records knows their number too, or Keras would warn when they end
    records = records.apply(tf.data.experimental.assert_cardinality(records.cardinality()))
    return records.map(parse, num_parallel_calls=tf.data.AUTOTUNE)


def small_model():  # type: ignore[no-untyped-def]
    import keras

    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    return model


def train(options: dict[str, object], clock: Clock) -> None:
    with clock.step("import TensorFlow"):
        from tqdm.keras import TqdmCallback

        model = small_model()
    with clock.step(f"train {EPOCHS} epochs from {URL}"):
        training = dataset(0, 6, options).shuffle(2000, seed=1).batch(BATCH).prefetch(2)
        bar = TqdmCallback(verbose=0)
        model.fit(training, epochs=EPOCHS, shuffle=False, verbose=0, callbacks=[bar])
    with clock.step("test on the last two shards"):
        accuracy = model.evaluate(dataset(6, 8, options).batch(BATCH), verbose=0)[1]
    print(f"test accuracy {accuracy:.1%}")
    if accuracy <= 0.9:
        raise SystemExit(f"the model reached {accuracy:.1%}, not the 90 % that this data gives")


def main() -> None:
    clock = Clock()
    with clock.step("start an S3 server"):
        options = start_s3()
    with clock.step(f"write {SHARDS} GZIP shards to {URL}"):
        write(options)
    with clock.step("list what was written"):
        show(options)
    train(options, clock)
    clock.print()


if __name__ == "__main__":
    main()
