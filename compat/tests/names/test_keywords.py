"""Keywords that changed their names from version to version: calls of each row mean the same, and give the same."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import NotSupportedError
from fleet_paddle import mode

paddle: Any = import_module("paddle")
fluid: Any = import_module("paddle.fluid")
nn, F = paddle.nn, paddle.nn.functional

X = np.random.default_rng(0).random((4, 6)).astype(np.float32)
SCOPE = {"paddle": paddle, "fluid": fluid, "nn": nn, "F": F, "np": np}


@pytest.fixture(autouse=True)
def tensors() -> Iterator[None]:
    with mode.guard():
        yield


FUNCTIONS = [
    # 1.5 to 1.8, then 2.0 to 2.2
    ("fluid.layers.reduce_sum(input=x, dim=1, keep_dim=True)", "paddle.sum(x=x, axis=1, keepdim=True)"),
    ("fluid.layers.reduce_mean(x, dim=[0])", "paddle.mean(x, axis=[0])"),
    ("fluid.layers.reduce_max(x, dim=1, keep_dim=True)", "paddle.max(x, axis=1, keepdim=True)"),
    ("fluid.layers.concat(input=[x, x], axis=1)", "paddle.concat(x=[x, x], axis=1)"),
    ("fluid.layers.split(input=x, num_or_sections=2, dim=1)[1]", "paddle.split(x, num_or_sections=2, axis=1)[1]"),
    ("fluid.layers.unsqueeze(input=x, axes=[1])", "paddle.unsqueeze(x, axis=1)"),
    ("fluid.layers.stack(x=[x, x], axis=0)", "paddle.stack(x=[x, x], axis=0)"),
    ("fluid.layers.transpose(x=x, perm=[1, 0])", "paddle.transpose(x=x, perm=[1, 0])"),
    ("fluid.layers.expand(x=x, expand_times=[2, 1])", "paddle.tile(x, repeat_times=[2, 1])"),
    ("fluid.layers.gather(input=x, index=rows)", "paddle.gather(x=x, index=rows, axis=0)"),
    ("fluid.layers.topk(input=x, k=2)[0]", "paddle.topk(x, k=2, axis=-1)[0]"),
    ("fluid.layers.argmax(x=x, axis=1)", "paddle.argmax(x, axis=1)"),
    ("fluid.layers.pow(x=x, factor=2.0)", "paddle.pow(x, y=2.0)"),
    ("fluid.layers.elementwise_add(x=x, y=x, act='relu')", "F.relu(paddle.add(x=x, y=x))"),
    ("fluid.layers.matmul(x=x, y=x, transpose_y=True)", "paddle.matmul(x, y=x, transpose_y=True)"),
    ("fluid.layers.clip(x=x, min=0.2, max=0.5)", "paddle.clip(x, min=0.2, max=0.5)"),
    ("fluid.layers.cast(x=x, dtype='float64')", "paddle.cast(x=x, dtype='float64')"),
    ("fluid.layers.leaky_relu(x=-x, alpha=0.1)", "F.leaky_relu(-x, negative_slope=0.1)"),
    ("fluid.layers.l2_normalize(x=x, axis=1, epsilon=1e-12)", "F.normalize(x, p=2, axis=1, epsilon=1e-12)"),
    ("fluid.layers.label_smooth(label=x, epsilon=0.1)", "F.label_smooth(label=x, epsilon=0.1)"),
    ("fluid.layers.softmax(input=x, axis=0)", "F.softmax(x, axis=0)"),
    ("fluid.layers.square_error_cost(input=x, label=x * 2)", "F.square_error_cost(input=x, label=x * 2)"),
    ("fluid.layers.fill_constant(shape=[2], dtype='float32', value=3.0)", "paddle.full(shape=[2], fill_value=3.0)"),
    ("fluid.layers.reverse(x, axis=0)", "paddle.flip(x, axis=[0])"),
    (
        "fluid.layers.softmax_with_cross_entropy(logits=x, label=classes)",
        "F.softmax_with_cross_entropy(logits=x, label=classes)",
        "F.cross_entropy(input=x, label=classes, reduction='none')",
        "nn.CrossEntropyLoss(reduction='none')(x, classes)",
    ),
]


@pytest.mark.parametrize("calls", FUNCTIONS, ids=lambda calls: calls[0].partition("(")[0])
def test_functions(calls: tuple[str, ...]) -> None:
    names = {"x": paddle.to_tensor(X), "rows": paddle.to_tensor([2, 0])}
    names["classes"] = paddle.to_tensor([[1], [5], [0], [2]])
    first, *others = (np.asarray(eval(call, SCOPE, names).numpy()) for call in calls)
    for one in others:
        np.testing.assert_allclose(one.reshape(first.shape), first, rtol=1e-6)


_DECAYS = (
    "fluid.regularizer.L2Decay(regularization_coeff=0.1)",
    "fluid.regularizer.L2DecayRegularizer(regularization_coeff=0.1)",
    "paddle.regularizer.L2Decay(coeff=0.1)",
)
OPTIMIZERS = [
    *(
        (
            f"fluid.optimizer.SGD(learning_rate=0.1, parameter_list=p, regularization={decay})",
            "paddle.optimizer.SGD(learning_rate=0.1, parameters=p, weight_decay=0.1)",
            f"paddle.optimizer.SGD(learning_rate=0.1, parameters=p, weight_decay={decay})",
        )
        for decay in _DECAYS
    ),
    (
        "fluid.optimizer.AdamOptimizer(0.1, beta1=0.8, beta2=0.9, epsilon=1e-8, parameter_list=p)",
        "fluid.optimizer.Adam(0.1, beta1=0.8, beta2=0.9, parameter_list=p, lazy_mode=False)",
        "paddle.optimizer.Adam(0.1, beta1=0.8, beta2=0.9, epsilon=1e-8, parameters=p, multi_precision=False)",
    ),
    (
        "fluid.optimizer.Momentum(learning_rate=0.1, momentum=0.9, parameter_list=p, use_nesterov=True)",
        "fluid.optimizer.MomentumOptimizer(0.1, 0.9, parameter_list=p, use_nesterov=True)",
        "paddle.optimizer.Momentum(learning_rate=0.1, momentum=0.9, parameters=p, use_nesterov=True)",
        "paddle.optimizer.Momentum(0.1, 0.9, p, True, multi_precision=True, rescale_grad=1.0, use_multi_tensor=True)",
    ),
    (
        "fluid.optimizer.Adagrad(learning_rate=0.1, epsilon=1e-6, parameter_list=p)",
        "paddle.optimizer.Adagrad(learning_rate=0.1, epsilon=1e-6, parameters=p)",
    ),
    (
        "fluid.optimizer.SGD(0.1, parameter_list=p, grad_clip=fluid.clip.GradientClipByGlobalNorm(clip_norm=0.01))",
        "paddle.optimizer.SGD(0.1, parameters=p, grad_clip=nn.ClipGradByGlobalNorm(clip_norm=0.01))",
        "paddle.optimizer.SGD(0.1, parameters=p, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.01, group_name='all'))",
    ),
    (
        "fluid.optimizer.SGD(0.1, parameter_list=p, grad_clip=fluid.clip.GradientClipByValue(max=0.01, min=-0.01))",
        "paddle.optimizer.SGD(0.1, parameters=p, grad_clip=nn.ClipGradByValue(max=0.01, min=-0.01))",
    ),
]


@pytest.mark.parametrize("calls", OPTIMIZERS, ids=lambda calls: calls[0].partition("(")[0])
def test_optimizers(calls: tuple[str, ...]) -> None:
    found = []
    for call in calls:
        torch.manual_seed(0)
        layer = nn.Linear(6, 2)
        made = eval(call, SCOPE, {"p": layer.parameters()})
        for _ in range(2):
            loss = paddle.mean(layer(paddle.to_tensor(X)) ** 2)
            loss.backward()
            made.minimize(loss)
            layer.clear_gradients()
        found.append(layer.weight.numpy())
    for one in found[1:]:
        np.testing.assert_allclose(one, found[0], rtol=1e-5, atol=1e-7)


LAYERS = [
    (
        "fluid.dygraph.Linear(input_dim=6, output_dim=2, param_attr=w, bias_attr=False, act='relu')",
        "nn.Sequential(nn.Linear(in_features=6, out_features=2, weight_attr=w, bias_attr=False), nn.ReLU())",
    ),
    (
        "fluid.dygraph.LayerNorm(normalized_shape=6, epsilon=1e-5, param_attr=w, bias_attr=None)",
        "nn.LayerNorm(normalized_shape=6, epsilon=1e-5, weight_attr=w, bias_attr=None)",
    ),
]


@pytest.mark.parametrize("calls", LAYERS, ids=lambda calls: calls[0].partition("(")[0])
def test_layers(calls: tuple[str, ...]) -> None:
    given = paddle.to_tensor(X)
    found = [
        eval(call, SCOPE, {"w": paddle.ParamAttr(initializer=nn.initializer.Constant(0.5))})(given).numpy()
        for call in calls
    ]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


def test_layers_of_programs_take_what_versions_had() -> None:
    mode.enable_static()
    kinds = fluid.core.VarDesc.VarType
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        image = fluid.layers.data(name="image", shape=[3, 4, 4], dtype="float32", type=kinds.LOD_TENSOR)
        assert fluid.layers.batch_norm(image, fuse_with_relu=False).shape == (-1, 3, 4, 4)
        assert fluid.layers.Print(image, print_tensor_layout=False).shape == (-1, 3, 4, 4)
        ids = fluid.data("ids", [None, 2], "int64")
        rows = paddle.static.nn.sparse_embedding(ids, [10, 4], table_class="MemorySparseTable")
        assert rows.shape == (-1, 2, 4)
        with pytest.raises(NotSupportedError, match="table_class must be 'CommonSparseTable', got 'SSDSparseTable'"):
            paddle.static.nn.sparse_embedding(ids, [10, 4], table_class="SSDSparseTable")
        with pytest.raises(NotSupportedError, match="batch_norm: fuse_with_relu must be False, got True; leave it out"):
            fluid.layers.batch_norm(image, fuse_with_relu=True)
        with pytest.raises(NotSupportedError, match="data: type must be 'tensor', got 'raw'"):
            fluid.layers.data(name="other", shape=[3], type=kinds.RAW)


def test_initializers_of_1_x() -> None:
    mode.enable_static()
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        filled = fluid.initializer.ConstantInitializer(value=2.0, force_cpu=True)
        weight = fluid.layers.create_parameter([2], "float32", default_initializer=filled)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        assert exe.run(fetch_list=[weight])[0].tolist() == [2.0, 2.0]
    assert fluid.initializer.Uniform(-1.0, 1.0, diag_num=0).high == 1.0
    with pytest.raises(NotSupportedError, match=r"diag_num must be 0, got 2 \(diag_step=1, diag_val=1.0\)"):
        fluid.initializer.UniformInitializer(diag_num=2, diag_step=1)


def test_backward_of_1_6_takes_a_strategy() -> None:
    strategy = fluid.dygraph.BackwardStrategy()
    strategy.sort_sum_gradient = True
    x = fluid.dygraph.to_variable(X)
    x.stop_gradient = False
    fluid.layers.reduce_sum(x * x).backward(strategy)
    np.testing.assert_allclose(x.gradient(), 2 * X)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("paddle.optimizer.Momentum(0.1, parameters=p, rescale_grad=0.5)", "rescale_grad must be 1.0, got 0.5"),
        ("paddle.optimizer.AdamW(0.1, parameters=p, lr_ratio=len)", "lr_ratio is not built; give parameters ParamAttr"),
        ("paddle.optimizer.Adam(0.1, parameters=h, multi_precision=True)", "multi_precision needs weights of 32 bits"),
    ],
)
def test_what_is_asked_for_and_not_built_is_refused(call: str, text: str) -> None:
    half = nn.Linear(2, 2)
    half.half()
    with pytest.raises(NotSupportedError, match=text):
        eval(call, SCOPE, {"p": nn.Linear(2, 2).parameters(), "h": half.parameters()})
