"""`DatasetFactory`: a dataset by the name of its class."""

from __future__ import annotations

from typing import ClassVar

from fleet.errors import NotSupportedError, UsageError
from fleet_programs.datasets.dataset import Dataset
from fleet_programs.datasets.dataset_memory import InMemoryDataset
from fleet_programs.datasets.dataset_queue import QueueDataset

_NOT_BUILT = {
    "FileInstantDataset": ("its files are binary, of a form that no tool here writes", "QueueDataset"),
    "BoxPSDataset": ("it fills GPU servers of a library that is not public", "InMemoryDataset"),
}


class DatasetFactory:
    """Makes datasets by name, as scripts of the first generation do.

    >>> type(DatasetFactory().create_dataset("InMemoryDataset")).__name__
    'InMemoryDataset'
    """

    _kinds: ClassVar[dict[str, type[Dataset]]] = {"QueueDataset": QueueDataset, "InMemoryDataset": InMemoryDataset}

    def create_dataset(self, datafeed_class: str = "QueueDataset") -> Dataset:
        """A new dataset."""
        if datafeed_class in _NOT_BUILT:
            reason, instead = _NOT_BUILT[datafeed_class]
            raise NotSupportedError(f"{datafeed_class} is not built: {reason}; use {instead}")
        if datafeed_class not in self._kinds:
            raise UsageError(f"there is no dataset {datafeed_class!r}; there are {', '.join(self._kinds)}")
        return self._kinds[datafeed_class]()
