"""`Transformer` and its parts: layers of attention and of two linear ones, over [batch, places, d_model]."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import torch

from fleet.errors import UsageError
from fleet_paddle.imperative.creation import dtype_of
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from fleet_paddle.imperative.nn.base import programs
from fleet_paddle.imperative.nn.base.layer import Layer, LayerList
from fleet_paddle.imperative.nn.base.taking import TakingLayer
from fleet_paddle.imperative.nn.dropout import Dropout
from fleet_paddle.imperative.nn.norms.norm import LayerNorm
from fleet_paddle.imperative.nn.sequences.attention import Cache, MultiHeadAttention, StaticCache
from fleet_paddle.imperative.nn.weighted import Linear
from fleet_paddle.imperative.place import current
from fleet_paddle.imperative.tensor import Tensor, as_paddle
from fleet_programs import layers
from fleet_programs.parameters.attr import ParamAttr

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]


_SETTINGS = (
    "dropout=0.1, activation='relu', attn_dropout=None, act_dropout=None, normalize_before=False, "
    "weight_attr=None, bias_attr=None"
)


class _Block(TakingLayer):
    """What encoder and decoder layers share: after or before each part a norm, around it what came in."""

    attentions: int
    self_attn: Any
    cross_attn: Any
    takes = f"d_model, nhead, dim_feedforward, {_SETTINGS}"

    def make_of(self, given: Any) -> None:
        kind, parts, width = type(self).__name__, self.attentions + 1, given.d_model
        self._config = vars(given)
        self._activation: Any = getattr(F, given.activation, None)
        if self._activation is None:
            raise UsageError(
                f"{kind}: activation must be the name of a function, such as relu or gelu, got {given.activation!r}"
            )
        self.normalize_before = given.normalize_before
        of_attention = given.dropout if given.attn_dropout is None else given.attn_dropout
        attrs = list(
            zip(*(attrs_of_parts(one, parts, kind) for one in (given.weight_attr, given.bias_attr)), strict=True)
        )
        for name, (weight, bias) in zip(("self_attn", "cross_attn"), attrs[:-1], strict=False):
            made = MultiHeadAttention(width, given.nhead, of_attention, weight_attr=weight, bias_attr=bias)
            self.add_sublayer(name, made)
        self.linear1 = Linear(width, given.dim_feedforward, *attrs[-1])
        self.dropout = Dropout(given.dropout if given.act_dropout is None else given.act_dropout)
        self.linear2 = Linear(given.dim_feedforward, width, *attrs[-1])
        for place in range(1, parts + 1):
            self.add_sublayer(f"norm{place}", LayerNorm(width))
        for place in range(1, parts + 1):
            self.add_sublayer(f"dropout{place}", Dropout(given.dropout))

    def around(self, place: int, x: torch.Tensor, part: Any) -> tuple[Tensor, Any]:
        """x plus what the part makes of it, and what else the part gives back."""
        norm, dropout = getattr(self, f"norm{place}"), getattr(self, f"dropout{place}")
        made = part(norm(x) if self.normalize_before else x)
        made, rest = made if isinstance(made, tuple) else (made, None)
        total = x + dropout(made)
        return as_paddle(total if self.normalize_before else norm(total)), rest

    def feed(self, x: torch.Tensor) -> Any:
        """The two linear layers."""
        return self.linear2(self.dropout(self._activation(self.linear1(x))))


class TransformerEncoderLayer(_Block):
    """A sequence looks at itself. With a cache it gives back what that has become, too."""

    attentions = 1

    def forward(self, src: torch.Tensor, src_mask: torch.Tensor | None = None, cache: Any = None) -> Any:
        made, after = self.around(1, src, lambda x: self.self_attn(x, x, x, src_mask, cache))
        made, _ = self.around(2, made, self.feed)
        return made if cache is None else (made, after)

    def gen_cache(self, src: torch.Tensor) -> Any:
        """An empty cache."""
        return self.self_attn.gen_cache(src, type=Cache)


class TransformerDecoderLayer(_Block):
    """A sequence looks at itself, then at the encoder's output. With caches it gives back what they have become."""

    attentions = 2

    def forward(self, tgt: Any, memory: Any, tgt_mask: Any = None, memory_mask: Any = None, cache: Any = None) -> Any:
        first, second = (None, None) if cache is None else cache
        made, after = self.around(1, tgt, lambda x: self.self_attn(x, x, x, tgt_mask, first))
        made, fixed = self.around(2, made, lambda x: self.cross_attn(x, memory, memory, memory_mask, second))
        made, _ = self.around(3, made, self.feed)
        return made if cache is None else (made, (after, fixed))

    def gen_cache(self, memory: torch.Tensor) -> Any:
        """An empty cache, and that of the encoder's output."""
        return self.self_attn.gen_cache(memory, type=Cache), self.cross_attn.gen_cache(memory, memory, StaticCache)


class _Stack(Layer):
    """Layers like the given one, each with first values of its own; then `norm`, if there is one."""

    layers: Any
    norm: Any

    def __init__(self, layer: Any, number: int, norm: Any) -> None:
        super().__init__()
        self.layers = LayerList([layer, *(type(layer)(**layer._config) for _ in range(number - 1))])
        self.num_layers, self.norm = number, norm

    def through(self, x: torch.Tensor, given: tuple[Any, ...], cache: Any) -> Any:
        """x after all layers, and with caches, one for each layer, what they have become."""
        made: Any = x
        caches = []
        for place, layer in enumerate(self.layers):
            made = layer(made, *given, None if cache is None else cache[place])
            if cache is not None:
                made, after = made
                caches.append(after)
        made = made if self.norm is None else self.norm(made)
        return made if cache is None else (made, caches)


class TransformerEncoder(_Stack):
    """Encoder layers one after the other, and a norm after them."""

    def __init__(self, encoder_layer: Any, num_layers: int, norm: Any = None) -> None:
        super().__init__(encoder_layer, num_layers, norm)

    def forward(self, src: torch.Tensor, src_mask: torch.Tensor | None = None, cache: Any = None) -> Any:
        return self.through(src, (src_mask,), cache)

    def gen_cache(self, src: torch.Tensor) -> list[Any]:
        """An empty cache for each layer."""
        return [layer.gen_cache(src) for layer in self.layers]


class TransformerDecoder(_Stack):
    """Decoder layers one after the other, and a norm after them."""

    def __init__(self, decoder_layer: Any, num_layers: int, norm: Any = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(self, tgt: Any, memory: Any, tgt_mask: Any = None, memory_mask: Any = None, cache: Any = None) -> Any:
        return self.through(tgt, (memory, tgt_mask, memory_mask), cache)

    def gen_cache(self, memory: torch.Tensor, do_zip: bool = False) -> list[Any]:
        """The caches of each layer; with `do_zip` first those of all layers for themselves, then for the memory."""
        caches = [layer.gen_cache(memory) for layer in self.layers]
        return list(zip(*caches, strict=True)) if do_zip else caches


class Transformer(TakingLayer):
    """An encoder of `src` and a decoder of `tgt` that looks at it, each with a norm at its end."""

    takes = (
        "d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048, "
        f"{_SETTINGS}, custom_encoder=None, custom_decoder=None"
    )

    def make_of(self, given: Any) -> None:
        names = "d_model nhead dim_feedforward dropout activation attn_dropout act_dropout normalize_before"
        settings = {name: getattr(given, name) for name in names.split()}
        few, many = zip(*(_spread(one) for one in (given.weight_attr, given.bias_attr)), strict=True)
        self.d_model, self.nhead = given.d_model, given.nhead
        self.encoder = given.custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(**settings, weight_attr=few[0], bias_attr=few[1]),
            given.num_encoder_layers,
            LayerNorm(given.d_model),
        )
        self.decoder = given.custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(**settings, weight_attr=many[0], bias_attr=many[1]),
            given.num_decoder_layers,
            LayerNorm(given.d_model),
        )

    def forward(self, src: Any, tgt: Any, src_mask: Any = None, tgt_mask: Any = None, memory_mask: Any = None) -> Any:
        return self.decoder(tgt, self.encoder(src, src_mask), tgt_mask, memory_mask)

    def generate_square_subsequent_mask(self, length: Any) -> Any:
        """A mask by which no place looks at a later one."""
        if programs.are_meant():
            return layers.assign(np.triu(np.full((int(length), int(length)), -np.inf, np.float32), 1))
        whole = torch.full((int(length), int(length)), -math.inf, dtype=dtype_of(None), device=current())
        return as_paddle(torch.triu(whole, 1))


def _spread(attr: Any) -> tuple[Any, Any]:
    """What encoder and decoder layers are given of one, two or three settings: attention, the other one, linear."""
    if not isinstance(attr, list | tuple):
        return attr, attr
    if not 1 <= len(attr) <= 3:
        raise UsageError(f"Transformer: a list of weight_attr or bias_attr has 1 to 3 elements, got {len(attr)}")
    return [attr[0], attr[-1]], [attr[0], attr[1] if len(attr) == 3 else attr[0], attr[-1]]


def attrs_of_parts(attr: Any, parts: int, kind: str = "a layer") -> list[Any]:
    """A setting for each part; one that has a name gets a number behind it, as a name belongs to one parameter."""
    if isinstance(attr, list | tuple):
        if len(attr) != parts:
            raise UsageError(f"{kind}: a list of weight_attr or bias_attr has {parts} elements, got {len(attr)}")
        return list(attr)
    settings = ParamAttr.of(attr)
    if settings is None or settings.name is None:
        return [attr] * parts
    several = [copy.copy(settings) for _ in range(parts)]
    for place, one in enumerate(several):
        one.name = f"{settings.name}_{place}"
    return several
