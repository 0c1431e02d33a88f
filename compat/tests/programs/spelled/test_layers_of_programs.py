"""A layer that is made after `enable_static()`: the program that it builds computes and trains as with tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import fleet_programs as static
from fleet.errors import NotReadyError, NotSupportedError, UsageError
from fleet_paddle import imperative, mode, optimizer
from fleet_paddle.imperative import nn
from fleet_paddle.imperative.nn import functional as F  # noqa: N812 - as everybody calls it
from program_support.programs import Built, building

RANDOM = np.random.default_rng(5)
ROWS = RANDOM.standard_normal((4, 6)).astype(np.float32)
IMAGES = RANDOM.standard_normal((2, 4, 6, 6)).astype(np.float32)
IDS = np.array([[1, 0, 3], [3, 2, 5]])
LABELS = np.array([0, 2, 5, 1])
PROBABILITIES = (RANDOM.random((4, 6)) * 0.9 + 0.05).astype(np.float32)

WORDS = RANDOM.standard_normal((2, 5, 6)).astype(np.float32)
OTHERS, THIRD, OTHERS6 = (RANDOM.standard_normal((2, 3, size)).astype(np.float32) for size in (5, 4, 6))
MASK = np.where(RANDOM.random((2, 1, 5, 5)) < 0.3, -1e4, 0).astype(np.float32)

Make = Callable[[], Any]


@pytest.fixture(autouse=True)
def nobody_spoke() -> Iterator[None]:
    with mode.kept(), static.scope_guard(static.Scope()):
        yield


class Net(nn.Layer):
    """A network as scripts write them: layers by name, in a list, parameters of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(8, 4, sparse=True, weight_attr=static.ParamAttr("table", nn.initializer.Uniform()))
        self.towers = nn.LayerList([nn.Linear(12, 5), nn.Linear(5, 3)])
        self.shifts = nn.ParameterList([self.create_parameter([3], is_bias=True)])
        self.act: Any = self.add_sublayer("act", nn.ReLU())
        self.factor = self.create_parameter([1], default_initializer=nn.initializer.Constant(2.0))

    def forward(self, ids: Any) -> Any:
        x = self.act(self.towers[0](imperative.reshape(self.table(ids), [-1, 12])))
        made = F.sigmoid(self.towers[1](x) * self.factor + self.shifts[0])
        return imperative.concat([made, imperative.sum(made, axis=1, keepdim=True)], axis=1)


class Spectral(nn.Layer):
    """Rows by a weight of length one, as networks that judge others have them."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = self.create_parameter([6, 3])
        self.norm = nn.SpectralNorm([6, 3], dim=1, power_iters=2)

    def forward(self, x: Any) -> Any:
        return imperative.matmul(x, self.norm(self.weight))


class First(nn.Layer):
    """The first and the second result of a layer, side by side."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Any) -> Any:
        first, second = self.inner(x)
        return imperative.concat([first, imperative.mean(second, axis=1)], axis=2)


LAYERS: dict[str, tuple[Make, tuple[Any, ...]]] = {
    "Linear": (lambda: nn.Linear(6, 3), (ROWS,)),
    "Linear without bias": (lambda: nn.Linear(6, 3, bias_attr=False), (ROWS,)),
    "Linear of images": (lambda: nn.Linear(6, 3), (IMAGES,)),
    "Embedding": (lambda: nn.Embedding(8, 3), (IDS,)),
    "Embedding, sparse": (lambda: nn.Embedding(8, 3, sparse=True), (IDS,)),
    "Embedding, padding": (lambda: nn.Embedding(8, 3, padding_idx=3), (IDS,)),
    "Conv2D": (lambda: nn.Conv2D(4, 6, 3, stride=2, padding=1, groups=2), (IMAGES,)),
    "MaxPool2D": (lambda: nn.Sequential(nn.Conv2D(4, 2, 1), nn.MaxPool2D(2)), (IMAGES,)),
    "AvgPool2D": (lambda: nn.Sequential(nn.Conv2D(4, 2, 1), nn.AvgPool2D(3, 2, 1)), (IMAGES,)),
    "AdaptiveAvgPool2D": (lambda: nn.Sequential(nn.Conv2D(4, 2, 1), nn.AdaptiveAvgPool2D(2)), (IMAGES,)),
    "BatchNorm1D": (lambda: nn.BatchNorm1D(6), (ROWS,)),
    "BatchNorm2D": (lambda: nn.BatchNorm2D(4, momentum=0.7), (IMAGES,)),
    "LayerNorm": (lambda: nn.LayerNorm(6), (ROWS,)),
    "LayerNorm of images": (lambda: nn.LayerNorm([6, 6]), (IMAGES,)),
    "Dropout": (lambda: nn.Sequential(nn.Linear(6, 3), nn.Dropout(0.0)), (ROWS,)),
    "Flatten": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(144, 2)), (IMAGES,)),
    "activations": (
        lambda: nn.Sequential(
            *(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU6(), nn.Linear(6, 6), nn.Tanh(), nn.Sigmoid()),
            *(nn.GELU(), nn.LeakyReLU(), nn.ELU(), nn.Softplus(), nn.Softsign(), nn.Silu(), nn.Hardsigmoid()),
            *(nn.LogSigmoid(), nn.Softmax(), nn.LogSoftmax(), nn.Identity()),
        ),
        (ROWS,),
    ),
    "a network": (Net, (IDS,)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (IMAGES,)),
    "GroupNorm, channels last": (lambda: nn.GroupNorm(3, 6, data_format="NHWC"), (IMAGES,)),
    "GroupNorm of rows": (lambda: nn.GroupNorm(3, 6, bias_attr=False), (ROWS,)),
    "InstanceNorm2D": (lambda: nn.InstanceNorm2D(4), (IMAGES,)),
    "InstanceNorm1D, channels last": (lambda: nn.InstanceNorm1D(6, data_format="NLC"), (WORDS,)),
    "SpectralNorm": (lambda: Spectral(), (ROWS,)),
    "MultiHeadAttention": (lambda: nn.MultiHeadAttention(6, 2), (WORDS,)),
    "MultiHeadAttention, other keys": (lambda: nn.MultiHeadAttention(6, 3, kdim=5, vdim=4), (WORDS, OTHERS, THIRD)),
    "MultiHeadAttention, weights": (lambda: First(nn.MultiHeadAttention(6, 2, need_weights=True)), (WORDS,)),
    "TransformerEncoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0), 2, nn.LayerNorm(6)),
        (WORDS, MASK),
    ),
    "TransformerEncoder, bools": (
        lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, activation="gelu", normalize_before=True), 1
        ),
        (WORDS, MASK > -1),
    ),
    "Transformer": (
        lambda: nn.Transformer(6, 2, 1, 1, 8, dropout=0.0),
        (WORDS, OTHERS6),
    ),
}

LOSSES: dict[str, tuple[Make, tuple[Any, ...]]] = {
    "MSELoss": (lambda: nn.MSELoss(), (ROWS, PROBABILITIES)),
    "L1Loss": (lambda: nn.L1Loss("sum"), (ROWS, PROBABILITIES)),
    "SmoothL1Loss": (lambda: nn.SmoothL1Loss(), (ROWS, PROBABILITIES)),
    "BCELoss": (lambda: nn.BCELoss(), (PROBABILITIES, PROBABILITIES)),
    "BCEWithLogitsLoss": (lambda: nn.BCEWithLogitsLoss(), (ROWS, PROBABILITIES)),
    "CrossEntropyLoss [N]": (lambda: nn.CrossEntropyLoss(), (ROWS, LABELS)),
    "CrossEntropyLoss [N, 1]": (lambda: nn.CrossEntropyLoss(reduction="none"), (ROWS, LABELS[:, None])),
    "CrossEntropyLoss, none": (lambda: nn.CrossEntropyLoss(reduction="none"), (ROWS, LABELS)),
    "CrossEntropyLoss, ignoring": (lambda: nn.CrossEntropyLoss(ignore_index=2), (ROWS, LABELS)),
    "CrossEntropyLoss, probabilities": (lambda: nn.CrossEntropyLoss(use_softmax=False), (PROBABILITIES, LABELS)),
    "CrossEntropyLoss, soft": (lambda: nn.CrossEntropyLoss(soft_label=True), (ROWS, PROBABILITIES)),
    "NLLLoss": (lambda: nn.NLLLoss(), (ROWS, LABELS)),
    "KLDivLoss": (lambda: nn.KLDivLoss(), (ROWS, PROBABILITIES)),
}


def variables(arrays: tuple[Any, ...]) -> list[Any]:
    return [static.data(f"x{place}", [None, *array.shape[1:]], str(array.dtype)) for place, array in enumerate(arrays)]


def fed(arrays: tuple[Any, ...]) -> dict[str, Any]:
    return {f"x{place}": array for place, array in enumerate(arrays)}


def start(built: Built, layer: nn.Layer, like: nn.Layer) -> None:
    """Run the startup program, then let the layer have another one's values."""
    built.start()
    with static.scope_guard(built.scope):
        layer.set_state_dict(like.state_dict())


@pytest.mark.parametrize("kind", LAYERS)
def test_a_layer_computes_and_trains_the_same(kind: str) -> None:
    make, arrays = LAYERS[kind]
    of_tensors = make()
    with building() as built:
        mode.enable_static()
        layer = make()
        out = layer(*variables(arrays))
        optimizer.SGD(0.5, parameters=layer.parameters()).minimize(imperative.mean(out * out))
    assert {name: list(one.shape) for name, one in layer.state_dict().items()} == {
        name: list(one.shape) for name, one in of_tensors.state_dict().items()
    }
    start(built, layer, of_tensors)
    (value,) = built.run(fed(arrays), out)
    mode.disable_static()
    wanted = of_tensors(*(imperative.to_tensor(array) for array in arrays))
    np.testing.assert_allclose(value, wanted.numpy(), rtol=1e-4, atol=1e-5)
    sgd = imperative.optimizer.SGD(0.5, parameters=of_tensors.parameters())
    (wanted * wanted).mean().backward()
    sgd.step()
    for name, one in of_tensors.state_dict().items():
        trained = built[layer.state_dict()[name].name]
        np.testing.assert_allclose(trained, one.numpy(), rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("kind", LOSSES)
def test_a_loss_is_the_same(kind: str) -> None:
    make, arrays = LOSSES[kind]
    wanted = make()(*(imperative.to_tensor(array) for array in arrays))
    with building() as built:
        loss = make()(*variables(arrays))
    (value,) = built.run(fed(arrays), loss)
    np.testing.assert_allclose(value, wanted.numpy(), rtol=1e-5, atol=1e-6)


def test_nothing_is_allocated_and_the_startup_program_has_the_first_values() -> None:
    mode.enable_static()
    with building() as built:
        huge = nn.Embedding(10**12, 1024, sparse=True, weight_attr=static.ParamAttr("huge", nn.initializer.Uniform()))
        layer = nn.Linear(3, 2, nn.initializer.Constant(0.5))
    assert isinstance(huge.weight, static.Parameter)
    assert huge.weight.shape == (10**12, 1024)
    assert [op.type for op in built.startup.global_block().ops] == ["uniform_random", "fill_constant", "fill_constant"]
    assert [getattr(one, "name", None) for one in layer.parameters()] == ["linear_0.w_0", "linear_0.b_0"]
    assert dict(layer.named_parameters()) == {"weight": layer.weight, "bias": layer.bias}
    assert layer.state_dict()["weight"] is layer.weight
    assert nn.BatchNorm2D(2).full_name().startswith("batch_norm2d_")


def test_evaluation_is_a_clone_or_a_layer_in_eval() -> None:
    mode.enable_static()
    with building() as built:
        (x,) = variables((ROWS,))
        dropout, norm = nn.Dropout(0.5), nn.BatchNorm1D(6)
        trained, normed = dropout(x), norm(x)
        dropout.eval()
        norm.eval()
        plain, kept = dropout(x), norm(x)
    built.start()
    values = built.run({"x0": ROWS}, trained, plain, kept, normed)
    assert (values[0] == 0).any()
    np.testing.assert_array_equal(values[1], ROWS)
    test = built.main.clone(for_test=True)
    mean = built[norm._mean.name].copy()
    found = static.Executor().run(test, {"x0": ROWS}, [trained, normed, kept], built.scope)
    np.testing.assert_array_equal(found[0], ROWS)
    np.testing.assert_allclose(found[1], found[2], rtol=1e-5)
    np.testing.assert_array_equal(built[norm._mean.name], mean)


def test_tensors_and_variables_are_told_apart() -> None:
    of_tensors = nn.Linear(6, 3)
    mode.enable_static()
    with building():
        (x,) = variables((ROWS,))
        with pytest.raises(UsageError, match=r"Linear was made for tensors and is called with 'x0'.*enable_static"):
            of_tensors(x)
        layer = nn.Linear(6, 3)
        with pytest.raises(UsageError, match="Linear was made for programs.*called with a tensor"):
            layer(torch.zeros(2, 6))
        with pytest.warns(UserWarning, match="weight is not given; bias is not given; w is not part of the layer"):
            layer.set_state_dict({"w": ROWS})
        with pytest.raises(NotReadyError, match="'linear_0.b_0' has no value in this scope; run the startup program"):
            layer.set_state_dict({"bias": ROWS[0, :3], "weight": ROWS[:3].T})
        with pytest.raises(NotSupportedError, match="as_real takes tensors, and is not built for variables"):
            imperative.as_real(x)
        with pytest.raises(AttributeError, match="'x0' has no numpy.*fetch it"):
            x.numpy()
        with pytest.raises(AttributeError, match="no attribute 'no_such'"):
            _ = x.no_such


def some_ignored(x: Any) -> Any:
    """Labels of which those of rows that begin below 0 are -100."""
    is_first = imperative.cast(x[:, 0] < 0, "int64")
    return imperative.argmax(x, axis=1) * (1 - is_first) - 100 * is_first


METHODS: dict[str, Callable[[Any], Any]] = {
    "mean": lambda x: x.mean(),
    "sum": lambda x: x.sum(axis=1),
    "reshape": lambda x: x.reshape([-1, 3]),
    "astype": lambda x: x.astype("int64"),
    "transpose": lambda x: x.transpose([1, 0]),
    "unsqueeze": lambda x: x.unsqueeze(1).squeeze(1),
    "clip": lambda x: x.clip(-1, 1),
    "matmul": lambda x: x.matmul(x, transpose_y=True),
    "detach": lambda x: x.detach() + x.clone(),
    "where": lambda x: imperative.where(x > 0, x, x * 0.0),
    "expand": lambda x: imperative.expand(imperative.unsqueeze(x, 0), [3, 4, 6]),
    "std": lambda x: imperative.std(x, axis=1),
    "norm": lambda x: imperative.norm(x, axis=1),
    "logsumexp": lambda x: imperative.logsumexp(x, axis=1),
    "isfinite": lambda x: imperative.isfinite(x / imperative.zeros_like(x)),
    "isnan": lambda x: imperative.isnan(x * 0.0 / (x * 0.0)),
    "tril": lambda x: imperative.tril(x, diagonal=1),
    "log1p": lambda x: imperative.log1p(x * x),
    "mod": lambda x: imperative.mod(x, imperative.full_like(x, 2.0)),
    "mm": lambda x: imperative.mm(x, imperative.t(x)),
    "numel": lambda x: imperative.numel(x),
    "chunk": lambda x: imperative.chunk(x, 2, axis=1)[1],
    "masked_select": lambda x: imperative.masked_select(x, x > 0),
    "gather": lambda x: imperative.gather(x, imperative.argmax(x, axis=0), axis=0),
    "roll": lambda x: imperative.roll(x, 8, axis=1),
    "index_sample": lambda x: imperative.index_sample(x, imperative.argsort(x, axis=1)),
    "addmm": lambda x: imperative.addmm(x, x, imperative.eye(6), beta=2.0, alpha=3.0),
    "tan": lambda x: imperative.tan(x),
    "isclose": lambda x: imperative.isclose(x, x * 1.0),
    "multiply": lambda x: imperative.multiply(x, imperative.sum(x, axis=1), axis=0),
    "prelu": lambda x: F.prelu(x, imperative.full([1], 0.3)),
    "conv1d": lambda x: F.conv1d(imperative.reshape(x, [2, 2, 6]), imperative.ones([3, 2, 3]), padding=1, stride=2),
    "conv3d": lambda x: F.conv3d(imperative.reshape(x, [1, 1, 2, 3, 4]), imperative.ones([2, 1, 2, 2, 2])),
    "max_pool1d": lambda x: F.max_pool1d(imperative.unsqueeze(x, 1), 2),
    "avg_pool1d": lambda x: F.avg_pool1d(imperative.unsqueeze(x, 1), 3, 2, 1),
    "normalize": lambda x: F.normalize(x),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x + 1.0),
    "pos_weight": lambda x: F.binary_cross_entropy_with_logits(x, F.sigmoid(x), pos_weight=imperative.full([1], 2.0)),
    "weight": lambda x: F.cross_entropy(x, imperative.argmax(x, axis=1), imperative.arange(6, dtype="float32") + 1.0),
    "softmax too": lambda x: F.softmax_with_cross_entropy(x, imperative.argmin(x, axis=1), return_softmax=True)[1],
    "max_pool1d same": lambda x: F.max_pool1d(imperative.unsqueeze(x, 1), 3, 1, "SAME"),
    "avg_pool1d same": lambda x: F.avg_pool1d(imperative.unsqueeze(x, 1), 3, 1, "SAME"),
    "ignored": lambda x: F.cross_entropy(x, some_ignored(x)),
    "ignored, none": lambda x: F.cross_entropy(x, some_ignored(x), reduction="none"),
    "ignored nll": lambda x: F.nll_loss(x, some_ignored(x)),
    "pad": lambda x: F.pad(imperative.reshape(x, [1, 4, 6, 1]), [1, 0, 2, 1]),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_and_functions_of_a_variable(name: str) -> None:
    wanted = METHODS[name](imperative.to_tensor(ROWS))
    mode.enable_static()
    with building() as built:
        made = METHODS[name](*variables((ROWS,)))
    built.start()
    (value,) = built.run({"x0": ROWS}, made)
    np.testing.assert_allclose(value, wanted.numpy(), rtol=1e-5, atol=1e-5)


def test_makers_make_variables() -> None:
    mode.enable_static()
    with building() as built:
        made = [
            *(
                imperative.arange(4),
                imperative.eye(2),
                imperative.linspace(0, 1, 3),
                imperative.to_tensor([1.0, 2.0]),
                imperative.ones([2]),
            ),
            *(
                imperative.rand([50]),
                imperative.randn([50]),
                imperative.uniform([50]),
                imperative.randint(0, 5, [50]),
                imperative.randperm(5),
            ),
        ]
        assert all(isinstance(one, static.Variable) for one in made)
    first, second = built.run({}, *made), built.run({}, *made)
    np.testing.assert_array_equal(first[0], range(4))
    np.testing.assert_array_equal(first[3], [1.0, 2.0])
    assert 0 <= first[5].min() <= first[5].max() < 1
    assert set(first[8]) <= set(range(5))
    assert sorted(first[9]) == list(range(5))
    assert (first[6] != second[6]).any()


def test_class_weights_where_the_batch_decides_two_sizes() -> None:
    scores, labels = ROWS.reshape(2, 2, 6), np.array([[1, 0], [5, 3]])
    weight = np.arange(1, 7, dtype=np.float32)
    wanted = torch.nn.functional.cross_entropy(
        torch.from_numpy(scores).view(4, 6), torch.from_numpy(labels).view(4), torch.from_numpy(weight)
    )
    mode.enable_static()
    with building() as built:
        x: Any = static.data("x", [-1, -1, 6])
        y: Any = static.data("y", [-1, -1], "int64")
        loss = F.cross_entropy(x, y, imperative.to_tensor(weight))
    (value,) = built.run({"x": scores, "y": labels}, loss)
    np.testing.assert_allclose(value, [float(wanted)], rtol=1e-5)
