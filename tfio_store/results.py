"""What functions and methods return, for annotations: nobody makes these values by hand."""

from __future__ import annotations

from tfio_store.dataset.manifest import ShardInfo
from tfio_store.dataset.slice import Slice
from tfio_store.example import Examples
from tfio_store.maintain.clean import Leftovers
from tfio_store.maintain.diff import DatasetDiff
from tfio_store.maintain.info import DatasetInfo, ShardFacts
from tfio_store.maintain.verify import VerifyReport
from tfio_store.read.mixture import Mixture
from tfio_store.show.model import Finding
from tfio_store.show.report import Report
from tfio_store.tables.convert import Conversion
from tfio_store.tables.stats import DatasetStats, FeatureStats
from tfio_store.write.progress import Progress
from tfio_store.write.task import TaskResult, TaskWriter

__all__ = [
    "Conversion",
    "DatasetDiff",
    "DatasetInfo",
    "DatasetStats",
    "Examples",
    "FeatureStats",
    "Finding",
    "Leftovers",
    "Mixture",
    "Progress",
    "Report",
    "ShardFacts",
    "ShardInfo",
    "Slice",
    "TaskResult",
    "TaskWriter",
    "VerifyReport",
]
