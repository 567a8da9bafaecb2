"""The bridge to TensorFlow through its C ABI: ops for datasets, and filesystems."""

from collections.abc import Callable
from types import ModuleType

def load_ops(answers: ModuleType) -> None:
    """Register the ops with the TensorFlow that is imported; once per process.

    ``answers``, which is `tfio_store.tf.dataset.runtime`, serves whatever is not a raw local file.
    The module calls its ``begin_block``, ``read_block``, ``read_stream``, ``forget_steps``,
    ``inflate`` and ``is_whole`` with messages of its ``BlockRequest``, ``StreamRequest`` and
    ``Settings``; its ``classify`` turns what they raise into a TensorFlow error code and a message.

    Raises:
        ImportError: this TensorFlow lacks a function of the C ABI, or refuses an op.
        RuntimeError: the second call.
    """

def serve(new_host: object) -> None:
    """Send the calls of TensorFlow's filesystems to this `tfio_store.tf.filesystem.host.Host`,
    which is told to leave when the interpreter does. ImportError as for `load_ops`."""

def offer(scheme: str, register: Callable[[], None]) -> None:
    """Call ``register``, which makes TensorFlow load this extension, offering ``scheme`` to it."""

def at_exit(tell: Callable[[], None]) -> None:
    """When the interpreter leaves, no more of TensorFlow's calls are let in. Then call ``tell``,
    which ends what those that are in wait for."""

def abandon_reads(reason: str) -> None:
    """Let all reads of files that are on their way fail as if the store were away."""

def set_cache_budget(nbytes: int) -> None:
    """Bytes that the blocks of all open files together may take."""
