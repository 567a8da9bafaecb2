"""PyTorch: datasets for its DataLoader, which give tensors."""

from tfio_store.torch.episode_windows import EpisodeWindows
from tfio_store.torch.iterable import TFRecordIterable
from tfio_store.torch.map import TFRecordMap
from tfio_store.torch.resharding import reshard
from tfio_store.torch.tensors import NullableTensor, RaggedTensor

__all__ = [
    "EpisodeWindows",
    "NullableTensor",
    "RaggedTensor",
    "TFRecordIterable",
    "TFRecordMap",
    "reshard",
]
