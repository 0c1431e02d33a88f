"""Data for training: each worker's part of it, datasets of text files, and the generators of such text.

Names are resolved when first used: a generator is a program that is started for every file, and needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet._lazy import lazily

if TYPE_CHECKING:
    from fleet.data import synthetic
    from fleet.data.base import Shard
    from fleet.data.batch import Batch
    from fleet.data.dataset_factory import DatasetFactory
    from fleet.data.dataset_memory import InMemoryDataset
    from fleet.data.dataset_queue import QueueDataset
    from fleet.data.from_files import files
    from fleet.data.generator import DataGenerator, MultiSlotDataGenerator, MultiSlotStringDataGenerator
    from fleet.data.growing import Follow
    from fleet.data.hashing import hash_ids
    from fleet.data.memory import Examples, load
    from fleet.data.multislot_schema import MultiSlot, Slot
    from fleet.data.negatives import Negatives
    from fleet.data.ragged import Ragged
    from fleet.data.schema import Category, Number, Schema, criteo
    from fleet.data.sharding import shard

_HOMES = {
    "Batch": "batch",
    "Category": "schema",
    "DataGenerator": "generator",
    "DatasetFactory": "dataset_factory",
    "Examples": "memory",
    "Follow": "growing",
    "InMemoryDataset": "dataset_memory",
    "MultiSlot": "multislot_schema",
    "MultiSlotDataGenerator": "generator",
    "MultiSlotStringDataGenerator": "generator",
    "Negatives": "negatives",
    "Number": "schema",
    "QueueDataset": "dataset_queue",
    "Ragged": "ragged",
    "Schema": "schema",
    "Shard": "base",
    "Slot": "multislot_schema",
    "criteo": "schema",
    "files": "from_files",
    "hash_ids": "hashing",
    "load": "memory",
    "shard": "sharding",
}

__all__ = [
    "Batch",
    "Category",
    "DataGenerator",
    "DatasetFactory",
    "Examples",
    "Follow",
    "InMemoryDataset",
    "MultiSlot",
    "MultiSlotDataGenerator",
    "MultiSlotStringDataGenerator",
    "Negatives",
    "Number",
    "QueueDataset",
    "Ragged",
    "Schema",
    "Shard",
    "Slot",
    "criteo",
    "files",
    "hash_ids",
    "load",
    "shard",
    "synthetic",
]

__getattr__, __dir__ = lazily(__name__, __all__, _HOMES, modules={"synthetic": "synthetic"})
