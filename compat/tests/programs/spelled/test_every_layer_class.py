"""Every public name of `paddle`, `paddle.nn`, its functions and `paddle.fluid.layers`: which of them take no variable.

Functions are held to it by `test_functions_of_variables`; here it is classes, and the names that are neither.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fleet_programs as static
from fleet_paddle import mode
from fleet_paddle.fluid import layers as fluid_layers
from fleet_paddle.imperative import nn
from fleet_paddle.rows.listing import functions
from fleet_programs import Variable
from program_support.programs import building

NOT_CALLED = {
    "BeamSearchDecoder": "it is given to dynamic_decode",
    "ClipGradByGlobalNorm": "it is given to an optimizer",
    "ClipGradByNorm": "it is given to an optimizer",
    "ClipGradByValue": "it is given to an optimizer",
    "Layer": "users derive from it",
    "LayerDict": "it holds layers",
    "LayerList": "it holds layers",
    "ParameterList": "it holds parameters",
    "RNNCellBase": "users derive from it",
}
ROW, IMAGE, VOLUME = [None, 4, 6], [None, 4, 6, 6], [None, 4, 5, 6, 6]
VECTORS = [None, 6]


def _encoder() -> Any:
    return nn.TransformerEncoderLayer(6, 2, 8)


def _decoder() -> Any:
    return nn.TransformerDecoderLayer(6, 2, 8)


RECIPES: dict[str, tuple[Callable[[], Any], list[Any]]] = {
    "AlphaDropout": (lambda: nn.AlphaDropout(), [ROW]),
    "BatchNorm": (lambda: nn.BatchNorm(4), [IMAGE]),
    "BatchNorm1D": (lambda: nn.BatchNorm1D(4), [ROW]),
    "BatchNorm2D": (lambda: nn.BatchNorm2D(4), [IMAGE]),
    "BatchNorm3D": (lambda: nn.BatchNorm3D(4), [VOLUME]),
    "BiRNN": (lambda: nn.BiRNN(nn.GRUCell(6, 3), nn.GRUCell(6, 3)), [ROW]),
    "Bilinear": (lambda: nn.Bilinear(6, 6, 2), [VECTORS, VECTORS]),
    "CTCLoss": (lambda: nn.CTCLoss(), [[5, None, 3], ([None, 2], "int64"), ([None], "int64"), ([None], "int64")]),
    "Conv1D": (lambda: nn.Conv1D(4, 2, 3, padding=1, padding_mode="circular"), [ROW]),
    "Conv1DTranspose": (lambda: nn.Conv1DTranspose(4, 2, 3), [ROW]),
    "Conv2D": (lambda: nn.Conv2D(4, 2, 3, padding=1, padding_mode="reflect"), [IMAGE]),
    "Conv2DTranspose": (lambda: nn.Conv2DTranspose(4, 2, 3), [IMAGE]),
    "Conv3D": (lambda: nn.Conv3D(4, 2, 3), [VOLUME]),
    "Conv3DTranspose": (lambda: nn.Conv3DTranspose(4, 2, 3), [VOLUME]),
    "Dropout": (lambda: nn.Dropout(axis=1), [ROW]),
    "Dropout2D": (lambda: nn.Dropout2D(), [IMAGE]),
    "Dropout3D": (lambda: nn.Dropout3D(), [VOLUME]),
    "Embedding": (lambda: nn.Embedding(5, 2), [([None, 3], "int64")]),
    "Flatten": (lambda: nn.Flatten(), [IMAGE]),
    "GRU": (lambda: nn.GRU(6, 3), [ROW]),
    "GRUCell": (lambda: nn.GRUCell(6, 3), [VECTORS]),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), [IMAGE]),
    "HSigmoidLoss": (lambda: nn.HSigmoidLoss(6, 5), [VECTORS, ([None, 1], "int64")]),
    "Identity": (lambda: nn.Identity(), [ROW]),
    "InstanceNorm1D": (lambda: nn.InstanceNorm1D(4), [ROW]),
    "InstanceNorm2D": (lambda: nn.InstanceNorm2D(4), [IMAGE]),
    "InstanceNorm3D": (lambda: nn.InstanceNorm3D(4), [VOLUME]),
    "LSTM": (lambda: nn.LSTM(6, 3), [ROW]),
    "LSTMCell": (lambda: nn.LSTMCell(6, 3), [VECTORS]),
    "LayerNorm": (lambda: nn.LayerNorm(6), [ROW]),
    "Linear": (lambda: nn.Linear(6, 2), [ROW]),
    "MultiHeadAttention": (lambda: nn.MultiHeadAttention(6, 2), [ROW]),
    "PReLU": (lambda: nn.PReLU(4), [IMAGE]),
    "Pad1D": (lambda: nn.Pad1D([1, 2], "replicate"), [ROW]),
    "Pad2D": (lambda: nn.Pad2D([1, 2, 0, 1]), [IMAGE]),
    "Pad3D": (lambda: nn.Pad3D(1), [VOLUME]),
    "PairwiseDistance": (lambda: nn.PairwiseDistance(), [VECTORS, VECTORS]),
    "RNN": (lambda: nn.RNN(nn.LSTMCell(6, 3)), [ROW]),
    "Sequential": (lambda: nn.Sequential(nn.Linear(6, 3), nn.Tanh()), [ROW]),
    "SimpleRNN": (lambda: nn.SimpleRNN(6, 3), [ROW]),
    "SimpleRNNCell": (lambda: nn.SimpleRNNCell(6, 3), [VECTORS]),
    "SpectralNorm": (lambda: nn.SpectralNorm([4, 6]), [[4, 6]]),
    "SyncBatchNorm": (lambda: nn.SyncBatchNorm(4), [IMAGE]),
    "Transformer": (lambda: nn.Transformer(6, 2, 1, 1, 8), [ROW, ROW]),
    "TransformerDecoder": (lambda: nn.TransformerDecoder(_decoder(), 1), [ROW, ROW]),
    "TransformerDecoderLayer": (_decoder, [ROW, ROW]),
    "TransformerEncoder": (lambda: nn.TransformerEncoder(_encoder(), 1), [ROW]),
    "TransformerEncoderLayer": (_encoder, [ROW]),
    "UpsamplingBilinear2D": (lambda: nn.UpsamplingBilinear2D([3, 4]), [IMAGE]),
    "UpsamplingNearest2D": (lambda: nn.UpsamplingNearest2D(scale_factor=2), [IMAGE]),
}
"""Classes that are written by hand: how one is made, and the shapes (and types) of what it is called with."""


@pytest.fixture(autouse=True)
def programs() -> Iterator[None]:
    with mode.kept(), static.scope_guard(static.Scope()):
        mode.enable_static()
        yield


def test_there_is_a_recipe_for_every_class_or_a_row() -> None:
    public: Any = importlib.import_module("paddle.nn")
    classes = {name for name in dir(public) if inspect.isclass(getattr(public, name))}
    made_of_rows = {one.layer for one in functions() if one.layer}
    assert classes - made_of_rows == RECIPES.keys() | NOT_CALLED.keys()


@pytest.mark.parametrize("name", RECIPES)
def test_a_class_builds_a_program(name: str) -> None:
    make, given = RECIPES[name]
    with building() as built:
        several = [one if isinstance(one, tuple) else (one, "float32") for one in given]
        made = make()(*(static.data(f"x{place}", shape, kind) for place, (shape, kind) in enumerate(several)))
        first = made[0] if isinstance(made, tuple) else made
        assert isinstance(first, Variable)
    text = str(built.main)
    assert str(static.Program.parse_from_string(text)) == text


def test_every_layer_of_version_1_takes_variables() -> None:
    homes = fluid_layers._HOMES
    assert [name for name in fluid_layers.__all__ if not any(name in vars(home) for home in homes)] == []


TAKES = {"args", "equation", "input", "outputs", "x", "y"}
"""What functions of tensors call their first argument."""
BY_HAND = {
    "einsum": "takes variables",
    "grad": "there are no gradients without values: paddle.static.gradients(targets, inputs)",
    "meshgrid": "takes variables",
    "reverse": "takes variables",
    "tolist": "there are no values to list while a program is built; fetch them",
}
"""Functions of tensors that have no row."""


def test_what_is_no_row_is_known() -> None:
    public: Any = importlib.import_module("paddle")
    rows = {one.spelling.name for one in functions()}
    others = {name: getattr(public, name) for name in dir(public) if name not in rows and not name.startswith("_")}
    found = {
        name
        for name, one in others.items()
        if inspect.isfunction(one) and next(iter(inspect.signature(one).parameters), "") in TAKES
    }
    assert found <= BY_HAND.keys(), "say here whether it takes variables"
