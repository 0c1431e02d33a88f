"""Attention and Transformer equal torch's with the same weights, and a cache gives what the whole sequence gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import fleet_paddle.imperative as paddle
from fleet.errors import UsageError
from fleet_paddle.imperative import nn


def as_torch(attention: Any) -> dict[str, torch.Tensor]:
    """The state of torch's attention with the weights of ours."""
    parts = [attention.q_proj, attention.k_proj, attention.v_proj]
    state = {
        "in_proj_weight": torch.cat([one.weight.T for one in parts]),
        "in_proj_bias": torch.cat([one.bias for one in parts]),
        "out_proj.weight": attention.out_proj.weight.T,
        "out_proj.bias": attention.out_proj.bias,
    }
    return {name: one.detach().as_subclass(torch.Tensor) for name, one in state.items()}


def block_as_torch(layer: Any) -> dict[str, torch.Tensor]:
    """The state of torch's encoder or decoder layer with the weights of ours."""
    names = {"self_attn": "self_attn", "cross_attn": "multihead_attn"}
    state: dict[str, torch.Tensor] = {}
    for name, child in layer.named_children():
        if name in names:
            state |= {f"{names[name]}.{key}": value for key, value in as_torch(child).items()}
        elif name.startswith(("linear", "norm")):
            weight = child.weight.T if name.startswith("linear") else child.weight
            state |= {f"{name}.weight": weight.detach(), f"{name}.bias": child.bias.detach()}
    return state


def close(made: Any, wanted: Any) -> None:
    assert type(made) is paddle.Tensor
    np.testing.assert_allclose(made.numpy(), wanted.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_attention_is_torchs() -> None:
    ours, plain = nn.MultiHeadAttention(8, 2, need_weights=True), torch.nn.MultiheadAttention(8, 2, batch_first=True)
    plain.load_state_dict(as_torch(ours))
    query, key = paddle.randn([2, 3, 8]), paddle.randn([2, 4, 8])
    made, weights = ours(query, key, key)
    given = [one.as_subclass(torch.Tensor) for one in (query, key, key)]
    wanted, wanted_weights = plain(*given, average_attn_weights=False)
    close(made, wanted)
    close(weights, wanted_weights)
    ours.need_weights = False
    close(ours(query, key), wanted)


@pytest.mark.parametrize("need_weights", [False, True])
def test_masks_are_floats_that_are_added_or_bools_that_keep(need_weights: bool) -> None:
    layer, x = nn.MultiHeadAttention(8, 2, need_weights=need_weights), paddle.randn([2, 3, 8])
    keeps = paddle.to_tensor(np.tril(np.ones((3, 3), bool)))
    masks = [keeps, keeps.astype("int64"), nn.Transformer.generate_square_subsequent_mask(layer, 3)]  # type: ignore[arg-type]
    made = [layer(x, attn_mask=mask) for mask in masks]
    made = [one[0] if need_weights else one for one in made]
    close(made[1], made[0])
    close(made[2], made[0])
    alone = layer(x[:, :1])
    close(made[0][:, :1], alone[0] if need_weights else alone)


@pytest.mark.parametrize("before", [False, True])
def test_layers_are_torchs(before: bool) -> None:
    settings: dict[str, Any] = {"dim_feedforward": 16, "dropout": 0.0, "activation": "gelu"}
    encoder = nn.TransformerEncoderLayer(8, 2, **settings, normalize_before=before)
    decoder = nn.TransformerDecoderLayer(8, 2, **settings, normalize_before=before)
    plain_encoder = torch.nn.TransformerEncoderLayer(8, 2, **settings, norm_first=before, batch_first=True)
    plain_decoder = torch.nn.TransformerDecoderLayer(8, 2, **settings, norm_first=before, batch_first=True)
    plain_encoder.load_state_dict(block_as_torch(encoder))
    plain_decoder.load_state_dict(block_as_torch(decoder))
    src, tgt = paddle.randn([2, 4, 8]), paddle.randn([2, 3, 8])
    plain_src, plain_tgt = src.as_subclass(torch.Tensor), tgt.as_subclass(torch.Tensor)
    close(encoder(src), plain_encoder(plain_src))
    close(decoder(tgt, src), plain_decoder(plain_tgt, plain_src))


def test_a_transformer_is_an_encoder_a_decoder_and_norms() -> None:
    model = nn.Transformer(8, 2, 2, 1, 16).eval()
    src, tgt = paddle.randn([2, 4, 8]), paddle.randn([2, 3, 8])
    mask = model.generate_square_subsequent_mask(3)
    memory = model.encoder.norm(model.encoder.layers[1](model.encoder.layers[0](src)))
    close(model(src, tgt, tgt_mask=mask), model.decoder.norm(model.decoder.layers[0](tgt, memory, mask)))
    first, second = (layer.linear1.weight for layer in model.encoder.layers)
    assert (first != second).any()
    assert len(model.parameters()) == 2 * 16 + 26 + 4


def test_a_cache_gives_place_by_place_what_the_whole_gives() -> None:
    model = nn.Transformer(8, 2, 1, 2, 16).eval()
    src, tgt = paddle.randn([2, 4, 8]), paddle.randn([2, 3, 8])
    memory = model.encoder(src)
    wanted = model.decoder(tgt, memory, model.generate_square_subsequent_mask(3))
    cache = model.decoder.gen_cache(memory)
    for place in range(3):
        made, cache = model.decoder(tgt[:, place : place + 1], memory, cache=cache)
        close(made[:, 0], wanted[:, place])
    assert isinstance(cache[0][0], nn.MultiHeadAttention.Cache)
    assert len(model.decoder.gen_cache(memory, do_zip=True)) == 2
    layer = model.encoder.layers[0]
    whole = layer(src, paddle.to_tensor(np.tril(np.ones((4, 4), bool))))
    made, kept = layer(src[:, :3], paddle.to_tensor(np.tril(np.ones((3, 3), bool))), layer.gen_cache(src))
    close(layer(src[:, 3:], None, kept)[0], whole[:, 3:])
    assert len(model.encoder(src, cache=model.encoder.gen_cache(src))[1]) == 1


def test_settings_of_parts() -> None:
    attrs = [False, None, paddle.ParamAttr(name="b")]
    model = nn.Transformer(8, 2, 1, 1, 16, bias_attr=attrs)
    layer = model.decoder.layers[0]
    assert layer.self_attn.q_proj.bias is None
    assert layer.cross_attn.q_proj.bias is not None
    assert layer.linear1.bias.name == "b"
    assert model.encoder.layers[0].self_attn.q_proj.bias is None
    named = nn.TransformerEncoderLayer(8, 2, 16, weight_attr="w")
    assert [named.self_attn.q_proj.weight.name, named.linear1.weight.name] == ["w_0", "w_1"]
    with pytest.raises(UsageError, match="num_heads must divide embed_dim, got 3 and 8"):
        nn.MultiHeadAttention(8, 3)
    with pytest.raises(UsageError, match="activation must be the name of a function"):
        nn.TransformerEncoderLayer(8, 2, 16, activation="nothing")
    with pytest.raises(UsageError, match="has 2 elements, got 3"):
        nn.TransformerEncoderLayer(8, 2, 16, weight_attr=[None] * 3)
