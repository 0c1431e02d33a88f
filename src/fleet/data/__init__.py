"""Data for training: each worker's part of it. Names are resolved when first used."""

from typing import TYPE_CHECKING

from fleet._lazy import lazily

if TYPE_CHECKING:
    from fleet.data.columns.derived import Derived as Derived
    from fleet.data.columns.records import Batch as Batch
    from fleet.data.columns.records import Ragged as Ragged
    from fleet.data.columns.schema import Category as Category
    from fleet.data.columns.schema import Number as Number
    from fleet.data.columns.schema import Schema as Schema
    from fleet.data.columns.schema import criteo as criteo
    from fleet.data.formats.hashing import hash_ids as hash_ids
    from fleet.data.formats.in_memory import batch_of as batch_of
    from fleet.data.negatives import Negatives as Negatives
    from fleet.data.reading.feed import Feed as Feed
    from fleet.data.reading.from_files import Examples as Examples
    from fleet.data.reading.from_files import files as files
    from fleet.data.reading.from_files import load as load
    from fleet.data.reading.growing import Follow as Follow
    from fleet.data.sharding import shard as shard
    from fleet.data.shards.base import Shard as Shard
    from fleet_tools import synthetic as synthetic

_HOMES = {
    "columns.derived": "Derived",
    "columns.records": "Batch Ragged",
    "columns.schema": "Category Number Schema criteo",
    "formats.hashing": "hash_ids",
    "formats.in_memory": "batch_of",
    "negatives": "Negatives",
    "reading.feed": "Feed",
    "reading.from_files": "Examples files load",
    "reading.growing": "Follow",
    "sharding": "shard",
    "shards.base": "Shard",
}

if not TYPE_CHECKING:  # a checker that saw __all__ would take what is imported above for private
    __getattr__, __dir__, __all__ = lazily(__name__, _HOMES, tools={"synthetic"})
