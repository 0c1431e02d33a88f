"""Datasets of text files."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_programs": "DatasetFactory InMemoryDataset QueueDataset"},
    refused={
        "BoxPSDataset": "it fills the GPU servers of BoxPS, a library that is not public; use InMemoryDataset",
        "FileInstantDataset": "its files are binary, of a form that no tool here writes; use QueueDataset",
    },
)
