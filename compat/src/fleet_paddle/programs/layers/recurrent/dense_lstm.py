"""`lstm` of 1.x: layers of LSTM over dense input, whose weights are one long row, as cuDNN lays them out."""

from __future__ import annotations

from typing import Any

from fleet.errors import NotSupportedError
from fleet_paddle.programs.networks.recurrent_network import Network
from fleet_programs import layers
from fleet_programs.layers.building.helper import LayerBuilder
from fleet_programs.parameters.attr import ParamAttr
from fleet_programs.program.variable import Variable

__all__ = ["lstm"]

_GATES = 4


def lstm(
    input: Variable,
    init_h: Variable,
    init_c: Variable,
    max_len: int,  # noqa: ARG001 - which cuDNN wanted to know
    hidden_size: int,
    num_layers: int,
    dropout_prob: float = 0.0,
    is_bidirec: bool = False,
    is_test: bool = False,
    name: str | None = None,
    default_initializer: Any = None,
    seed: int = -1,
) -> tuple[Variable, Variable, Variable]:
    """(outputs, last hidden states, last cells) of an LSTM along `input`, [time, batch, width].

    `init_h` and `init_c` are [num_layers * directions, batch, hidden_size], and so are the last ones. Values are
    dropped between layers. The weights are one parameter: all matrices, then all biases.
    """
    layer = LayerBuilder("cudnn_lstm", name)
    if seed not in (-1, None):
        raise NotSupportedError(f"lstm: seed must be left out, got {seed}; set random_seed of the program")
    if layer.variable(input).ndim != 3:
        raise layer.error(f"input {input.name!r} must be [time, batch, width], got shape {list(input.shape)}")
    ways, rows = 2 if is_bidirec else 1, _GATES * hidden_size
    shapes = [
        shape
        for place in range(num_layers)
        for _ in range(ways)
        for shape in ((rows, ways * hidden_size if place else input.shape[2]), (rows, hidden_size))
    ]
    biases = [(rows,)] * len(shapes)
    total = sum(height * width for height, width in shapes) + len(biases) * rows
    weight = layer.needed(ParamAttr(initializer=default_initializer), [total], input.dtype)
    parts = _cut(weight, [*shapes, *biases])
    matrices, own = parts[: len(shapes)], parts[len(shapes) :]
    sets = [(*matrices[at : at + 2], *own[at : at + 2]) for at in range(0, len(shapes), 2)]
    network = Network("LSTM", hidden_size, num_layers, bool(is_bidirec), True, float(dropout_prob), bool(is_test))
    out, (hidden, cell) = network(input, [one for several in sets for one in several], [init_h, init_c], None)
    return out, hidden, cell


def _cut(row: Variable, shapes: list[tuple[int, ...]]) -> list[Variable]:
    sizes = [shape[0] * (shape[1] if len(shape) > 1 else 1) for shape in shapes]
    parts = layers.split(row, sizes, 0)
    return [layers.reshape(one, list(shape)) for one, shape in zip(parts, shapes, strict=True)]
