"""PyTorch: datasets for its DataLoader, which give tensors. Needs ``tfio_store[torch]``."""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        "tfio_store.torch needs PyTorch: pip install 'tfio_store[torch]'", name=_error.name
    ) from _error

from tfio_store.torch.episode_windows import EpisodeWindows
from tfio_store.torch.iterable import TFRecordIterable
from tfio_store.torch.map import TFRecordMap
from tfio_store.torch.states import reshard
from tfio_store.torch.tensors import NullableTensor, RaggedTensor

__all__ = [
    "EpisodeWindows",
    "NullableTensor",
    "RaggedTensor",
    "TFRecordIterable",
    "TFRecordMap",
    "reshard",
]
