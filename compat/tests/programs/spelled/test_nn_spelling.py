"""`fleet_paddle.programs.nn`: either spelling of an argument gives the same program, both of one are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import fleet_programs as static
from fleet.errors import NotSupportedError, UsageError, UsageTypeError
from fleet.ps.job.entries import CountFilterEntry, ShowClickEntry
from fleet_paddle.imperative.creation import to_tensor
from fleet_paddle.programs import nn
from fleet_programs.parameters.initializer import Constant
from fleet_programs.program.notes import ENTRIES_NOTE
from fleet_programs.transpiler.planning.tables import find_tables, table_of
from fleet_programs.transpiler.planning.updates import updates_of


def text(build: Callable[[static.Variable, static.Variable], Any]) -> str:
    with static.program_guard(static.Program(), static.Program()), static.unique_name.guard():
        build(static.data("x", [None, 3, 8, 8]), static.data("ids", [None, 1], "int64"))
        return str(static.default_main_program())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            lambda x, _: nn.fc(x, 4, weight_attr="w", activation="relu"),
            lambda x, _: nn.fc(input=x, size=4, param_attr="w", act="relu"),
        ),
        (lambda x, _: nn.conv2d(x, 2, 3, act="relu"), lambda x, _: nn.conv2d(x, 2, 3, activation="relu")),
        (lambda x, _: nn.batch_norm(input=x, param_attr="s"), lambda x, _: nn.batch_norm(x=x, weight_attr="s")),
        (lambda x, _: nn.prelu(x, "all", "a"), lambda x, _: nn.prelu(input=x, mode="all", weight_attr="a")),
        (lambda x, _: nn.mean(x), lambda x, _: nn.mean(input=x)),
        (lambda x, _: nn.mean(x, axis=1, keepdim=True), lambda x, _: nn.mean(x, dim=1, keep_dim=True)),
        (
            lambda _, ids: nn.embedding(ids, [9, 2], param_attr="e"),
            lambda _, ids: nn.embedding(x=ids, size=[9, 2], weight_attr="e"),
        ),
        (lambda x, _: nn.dropout(x, 0.5), lambda x, _: nn.dropout(x, p=0.5)),
    ],
    ids=["fc", "conv2d", "batch_norm", "prelu", "mean", "mean_axis", "embedding", "dropout"],
)
def test_spellings_give_one_program(one: Callable[..., Any], other: Callable[..., Any]) -> None:
    assert text(one) == text(other)


def test_an_embedding_of_2_keeps_the_last_size() -> None:
    with static.program_guard(static.Program(), static.Program()):
        ids = static.data("ids", [None, 1], "int64")
        assert nn.embedding(ids, [9, 2]).shape == (-1, 1, 2)
        assert nn.sparse_embedding(ids, [9, 2]).shape == (-1, 2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: nn.fc(x, 4, input=x), UsageError, r"test_nn_spelling.py:\d+: fc: x and input are two spellings"),
        (lambda x: nn.fc(x, 4, act="relu", activation="relu"), UsageError, "activation and act are two spellings"),
        (lambda x: nn.fc(x), UsageTypeError, "fc: missing a required argument: 'size'; its arguments are x, size"),
        (lambda x: nn.fc(x, 4, wait_attr=0), UsageTypeError, "unexpected keyword argument 'wait_attr'"),
        (lambda _: nn.deform_conv2d, AttributeError, r"deform_conv2d is not built; the closest .*: conv2d\(\)"),
        (lambda _: nn.fcc, AttributeError, "has no attribute 'fcc'"),
        (lambda x: nn.sparse_embedding(x, [9, 2], entry=5), UsageTypeError, "entry must be CountFilterEntry"),
        (lambda x: nn.sparse_embedding(x, [9, 2], entry=ShowClickEntry()), NotSupportedError, "show and click of each"),
    ],
)
def test_mistakes(call: Callable[..., Any], error: type[Exception], message: str) -> None:
    with static.program_guard(static.Program(), static.Program()), pytest.raises(error, match=message):
        call(static.data("x", [None, 3]))


def test_an_entry_reaches_the_table() -> None:
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        ids = static.data("ids", [None, 1], "int64")
        rows = [
            nn.sparse_embedding(ids, [9, 2], entry=CountFilterEntry(3), param_attr="filtered"),
            nn.sparse_embedding(ids, [9, 2], entry=CountFilterEntry(3), param_attr="filtered"),
            nn.sparse_embedding(ids, [9, 2], param_attr="open"),
        ]
        static.optimizer.SGD(0.1).minimize(nn.mean(static.layers.sums(rows)))
        with pytest.raises(UsageError, match="table 'filtered' has another entry policy already"):
            nn.sparse_embedding(ids, [9, 2], entry=CountFilterEntry(4), param_attr="filtered")
    program = main.clone()
    assert list(program.notes[ENTRIES_NOTE]) == ["filtered"]
    assert find_tables(program) == ["filtered", "open"]
    tables = {update.name: table_of(update, program, startup) for update in updates_of(program)}
    assert tables["filtered"].entry == CountFilterEntry(3)
    assert tables["open"].entry.name == "always"


def test_a_table_of_one_row_takes_any_number_of_ids() -> None:
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        ids = static.data("ids", [None, 1], "int64")
        rows = [nn.sparse_embedding(ids, [size, 2], param_attr=f"of {size}") for size in (1, 9)]
        static.optimizer.SGD(0.1).minimize(nn.mean(static.layers.sums(rows)))
    assert {one.name: table_of(one, main, startup).max_rows for one in updates_of(main)} == {"of 1": 0, "of 9": 9}


def test_a_program_of_either_spelling_trains() -> None:
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), static.scope_guard(static.Scope()):
        x, y = static.data("x", [None, 4]), static.data("y", [None, 1], "int64")
        hidden = nn.fc(input=x, size=8, act="tanh")
        cost = nn.mean(x=nn.cross_entropy(input=nn.fc(x=[hidden], size=2, activation="softmax"), label=y))
        static.optimizer.SGD(0.5).minimize(cost)
        exe = static.Executor(static.CPUPlace())
        exe.run(startup)
        values = np.random.default_rng(0).standard_normal((64, 4)).astype("float32")
        feed = {"x": values, "y": (values[:, :1] > 0).astype("int64")}
        losses = [exe.run(main, feed=feed, fetch_list=[cost])[0].item() for _ in range(50)]
    assert losses[-1] < 0.5 * losses[0]


def test_layer_norm_of_a_tensor_is_torchs() -> None:
    x = to_tensor(np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32), stop_gradient=False)
    made = nn.layer_norm(x, begin_norm_axis=2, param_attr=Constant(2.0), bias_attr=Constant(0.5), act="relu")
    expected = torch.relu(torch.nn.functional.layer_norm(x.detach(), (4,)) * 2 + 0.5)
    assert torch.allclose(made.detach(), expected)
    made.sum().backward()
    assert x.grad is not None
    plain = nn.layer_norm(x, scale=False, shift=False)
    assert torch.allclose(plain.detach(), torch.nn.functional.layer_norm(x.detach(), (3, 4)))
