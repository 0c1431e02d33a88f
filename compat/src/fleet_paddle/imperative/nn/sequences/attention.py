"""`MultiHeadAttention`: each place of a sequence looks at every place of another, in several ways at once."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as plain_F  # noqa: N812 - ours is called F

from fleet.errors import UsageError
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.imperative.nn.base.taking import TakingLayer
from fleet_paddle.imperative.nn.weighted import Linear
from fleet_paddle.imperative.tensor import Tensor, as_paddle
from fleet_paddle.programs.networks import attention
from fleet_programs import layers
from fleet_programs.program.variable import Variable

__all__ = ["MultiHeadAttention"]


class Cache(NamedTuple):
    """Keys and values of the places so far, [batch, heads, places, size]; each call adds its own."""

    k: Any
    v: Any


class StaticCache(NamedTuple):
    """Keys and values that no call changes, such as those of an encoder's output."""

    k: Tensor
    v: Tensor


def added(mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    """A mask as what is added to scores: floats as they are; of bools and ints, False and 0 leave a place out."""
    if mask is None or mask.is_floating_point():
        return mask if mask is None else mask.to(dtype)
    return (mask.to(dtype) - 1.0) * attention.FAR_BELOW


class MultiHeadAttention(TakingLayer):
    """Attention of `num_heads` heads over [batch, places, embed_dim].

    A mask is [batch, heads, queries, keys], or anything that spreads to it; see `added`. Called with a cache it gives
    back what the cache has become, too; with `need_weights` the weights before that.
    """

    Cache, StaticCache = Cache, StaticCache
    takes = (
        "embed_dim, num_heads, dropout=0.0, kdim=None, vdim=None, need_weights=False, weight_attr=None, bias_attr=None"
    )

    def make_of(self, given: Any) -> None:
        width, heads, attrs = given.embed_dim, given.num_heads, (given.weight_attr, given.bias_attr)
        if width < 1 or heads < 1 or width % heads:
            raise UsageError(f"MultiHeadAttention: num_heads must divide embed_dim, got {heads} and {width}")
        self.embed_dim, self.num_heads, self.head_dim = width, heads, width // heads
        self.dropout, self.need_weights = given.dropout, given.need_weights
        self.q_proj = Linear(width, width, *attrs)
        self.k_proj, self.v_proj = (
            Linear(width if one is None else one, width, *attrs) for one in (given.kdim, given.vdim)
        )
        self.out_proj = Linear(width, width, *attrs)

    def forward(self, query: Any, key: Any = None, value: Any = None, attn_mask: Any = None, cache: Any = None) -> Any:
        key = query if key is None else key
        value = key if value is None else value
        queries = self._heads(self.q_proj(query))
        if isinstance(cache, StaticCache):
            keys, values = cache
        else:
            keys, values = self.compute_kv(key, value)
        if isinstance(cache, Cache):
            keys, values = (_longer(*pair) for pair in zip(cache, (keys, values), strict=True))
            cache = Cache(keys, values)
        if isinstance(query, Variable):
            seen, weights = self._of_variables(queries, keys, values, attn_mask)
        else:
            seen, weights = self._of_tensors(queries, keys, values, attn_mask)
        made = [self.out_proj(seen)]
        made += [one for one in (weights, cache) if one is not None]
        return made[0] if len(made) == 1 else tuple(made)

    def _of_tensors(self, queries: Any, keys: Any, values: Any, attn_mask: Any) -> tuple[Any, Any]:
        mask = added(attn_mask, queries.dtype)
        weights = None
        if self.need_weights:
            scores = torch.matmul(queries, keys.mT) / math.sqrt(self.head_dim)
            shares = torch.softmax(scores if mask is None else scores + mask, -1)
            weights = F.dropout(shares, self.dropout, training=self.training)
            seen = torch.matmul(weights, values)
        else:
            probability = self.dropout if self.training else 0.0
            seen = plain_F.scaled_dot_product_attention(queries, keys, values, mask, probability)
        return torch.flatten(torch.movedim(seen, 1, 2), 2), weights

    def _of_variables(self, queries: Any, keys: Any, values: Any, attn_mask: Any) -> tuple[Any, Any]:
        mask = attention.added(attn_mask, queries.dtype)
        how = (self.dropout, not self.training, not self.need_weights)
        seen, weights = attention.attended(queries, keys, values, mask, *how)
        return attention.joined(seen), weights if self.need_weights else None

    def compute_kv(self, key: Any, value: Any) -> tuple[Any, Any]:
        """Keys and values, head by head."""
        return self._heads(self.k_proj(key)), self._heads(self.v_proj(value))

    def gen_cache(self, key: Any, value: Any = None, type: Any = Cache) -> Any:
        """A cache to begin with: an empty one; of type StaticCache, that of `key` and `value`.

        Given a value and no type, `key` and `value` are what a cache has already.
        """
        if type is StaticCache:
            return StaticCache(*self.compute_kv(key, key if value is None else value))
        if value is not None:
            return Cache(as_paddle(key), as_paddle(value))
        if isinstance(key, Variable):
            return Cache(*(attention.no_places(key, self.num_heads, self.head_dim) for _ in range(2)))
        empty = as_paddle(key.new_zeros((key.shape[0], self.num_heads, 0, self.head_dim)))
        return Cache(empty, empty)

    def _heads(self, x: Any) -> Any:
        if isinstance(x, Variable):
            return attention.heads(x, self.num_heads, self.head_dim)
        split = torch.reshape(x, (x.shape[0], -1, self.num_heads, self.head_dim))
        return as_paddle(torch.movedim(split, 2, 1))


def _longer(before: Any, more: Any) -> Any:
    """The places so far and those of this call."""
    return layers.concat([before, more], 2) if isinstance(more, Variable) else as_paddle(torch.cat((before, more), 2))
