"""Torch modules whose rows live in tables on the servers: `Embedding` and `EmbeddingCollection`."""

from fleet.nn.collection import EmbeddingCollection, Slot
from fleet.nn.embedding import Embedding
from fleet.nn.keyed_jagged import from_keyed_jagged, to_keyed_jagged
from fleet.nn.pooling import pool, pool_slots
from fleet.nn.sparse import SparseModule

__all__ = [
    "Embedding",
    "EmbeddingCollection",
    "Slot",
    "SparseModule",
    "from_keyed_jagged",
    "pool",
    "pool_slots",
    "to_keyed_jagged",
]
