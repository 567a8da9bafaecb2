"""tf.train.Example and SequenceExample without TensorFlow."""

from tfio_store.example.codec import (
    Examples,
    decode_examples,
    decode_sequence_examples,
    encode_example,
    encode_examples,
    encode_sequence_example,
)
from tfio_store.example.ragged import Nullable, Ragged
from tfio_store.records.framing import backend  # from here, since it names `codec` too

__all__ = [
    "Examples",
    "Nullable",
    "Ragged",
    "backend",
    "decode_examples",
    "decode_sequence_examples",
    "encode_example",
    "encode_examples",
    "encode_sequence_example",
]
