"""The Transformer: an encoder, a decoder, one table of words for both; each block is normalised before it runs."""

from __future__ import annotations

import math

import torch
from config import Config
from text import PAD
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812


class Attention(nn.Module):
    """Queries of one sequence to keys and values of another, or of the same."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.num_heads, self.dropout = config.num_heads, config.dropout
        self.query, self.key_value = nn.Linear(config.width, config.width), nn.Linear(config.width, 2 * config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor, seen: Tensor, mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        query, key, value = (
            one.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for one in (self.query(x), *self.key_value(seen).chunk(2, dim=-1))
        )
        dropout = self.dropout if self.training else 0.0
        found = F.scaled_dot_product_attention(query, key, value, mask, dropout, is_causal)
        made: Tensor = self.out(found.transpose(1, 2).flatten(2))
        return made


class Layer(nn.Module):
    """Attention to oneself, in the decoder also to the source, and two linear layers."""

    def __init__(self, config: Config, is_decoder: bool) -> None:
        super().__init__()
        self.attend, self.norm1 = Attention(config), nn.LayerNorm(config.width)
        self.look = Attention(config) if is_decoder else None
        self.norm2 = nn.LayerNorm(config.width) if is_decoder else None
        self.up, self.down = nn.Linear(config.width, config.inner), nn.Linear(config.inner, config.width)
        self.norm3, self.drop = nn.LayerNorm(config.width), nn.Dropout(config.dropout)

    def forward(self, x: Tensor, source_mask: Tensor, source: Tensor | None = None) -> Tensor:
        normal = self.norm1(x)
        if self.look is None or self.norm2 is None:
            x = x + self.drop(self.attend(normal, normal, source_mask))
        else:  # padding comes last, so a causal mask hides it from whatever counts
            x = x + self.drop(self.attend(normal, normal, is_causal=True))
            x = x + self.drop(self.look(self.norm2(x), source, source_mask))
        made: Tensor = x + self.drop(self.down(F.relu(self.up(self.norm3(x)))))
        return made


class Transformer(nn.Module):
    """Source and target tokens to the sum of the losses of the targets; in evaluation to scores [B, T, V]."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.smoothing, self.width = config.smoothing, config.width
        self.words = nn.Embedding(config.vocabulary, config.width)
        self.encoder = nn.ModuleList(Layer(config, is_decoder=False) for _ in range(config.num_layers))
        self.decoder = nn.ModuleList(Layer(config, is_decoder=True) for _ in range(config.num_layers))
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
        self.drop = nn.Dropout(config.dropout)
        self.register_buffer("places", _waves(config.longest + config.bucket, config.width), persistent=False)
        for one in self.modules():
            if isinstance(one, nn.Linear):
                nn.init.xavier_uniform_(one.weight)
                nn.init.zeros_(one.bias)
        nn.init.normal_(self.words.weight, std=config.width**-0.5)

    def forward(self, source: Tensor, before: Tensor, after: Tensor) -> Tensor:
        scores = self.decode(before, *self.encode(source))
        if not self.training:
            return scores
        return F.cross_entropy(
            scores.flatten(0, 1), after.flatten(), ignore_index=PAD, label_smoothing=self.smoothing, reduction="sum"
        )

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """What the decoder looks at, and where there is something to see."""
        mask = (source != PAD)[:, None, None, :]
        x = self._placed(source)
        for layer in self.encoder:
            x = layer(x, mask)
        return self.encoder_norm(x), mask

    def decode(self, before: Tensor, seen: Tensor, mask: Tensor) -> Tensor:
        """Scores of the token behind each of `before`."""
        x = self._placed(before)
        for layer in self.decoder:
            x = layer(x, mask, seen)
        return F.linear(self.decoder_norm(x), self.words.weight)

    def _placed(self, tokens: Tensor) -> Tensor:
        places: Tensor = self.get_buffer("places")
        made: Tensor = self.drop(self.words(tokens) * math.sqrt(self.width) + places[: tokens.shape[1]])
        return made


def _waves(length: int, width: int) -> Tensor:
    """Sines and cosines of ever longer waves, by which a place is known."""
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    angles = torch.arange(length)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
