"""The bridge to TensorFlow: custom ops through its C ABI. Built without TensorFlow."""

from collections.abc import Callable

from typing_extensions import Buffer as BytesLike

from tfio_store.records._core import RecordBatch

def load(
    begin_block: Callable[..., None],
    read_block: Callable[..., BytesLike | RecordBatch],
    read_stream: Callable[..., tuple[RecordBatch, str, tuple[int, int]]],
    classify: Callable[[BaseException], tuple[int, str]],
) -> None:
    """Register the ops with the TensorFlow that is imported; once per process.

    ``begin_block``, ``read_block`` and ``read_stream`` (see `tfio_store.tf.dataset.runtime`) serve
    whatever is not a raw local file; ``classify`` turns what they raise into a TensorFlow error
    code and a message.

    Raises:
        ImportError: this TensorFlow lacks a function of the C ABI, or refuses an op.
        RuntimeError: the second call.
    """
