"""Data for training: each worker's part of it, whatever does not come out even, and a position that can be saved."""

from fleet.data.base import Shard as Shard
from fleet.data.sharding import shard as shard

__all__ = ["Shard", "shard"]
