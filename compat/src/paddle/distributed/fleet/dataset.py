"""Datasets of text files."""

from paddle._alias import alias

alias(__name__, {"fleet.data": "DatasetFactory InMemoryDataset QueueDataset"})
