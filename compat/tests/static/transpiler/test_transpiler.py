"""`DistributeTranspiler`: what becomes of programs, who is asked for what, and what is refused."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import DeadlineError, EndpointError, NotReadyError, UsageError, UsageTypeError
from fleet_programs import Executor, ParamAttr, Scope, layers, optimizer
from fleet_programs.backward import clip
from fleet_programs.program.notes import SERVERS_NOTE
from fleet_programs.program.program import Program, program_guard
from fleet_programs.transpiler import (
    DistributeTranspiler,
    DistributeTranspilerConfig,
    GradAllReduce,
    LocalSGD,
    PSDispatcher,
    memory_optimize,
)
from fleet_programs.transpiler.planning.plan import Plan
from program_support import trained_programs as programs
from program_support.trained_programs import Pair, built

ONE, TWO = "127.0.0.1:6174", "127.0.0.1:6175"
SERVERS = f"{ONE},{TWO}"


def transpiled(pair: Pair, config: DistributeTranspilerConfig | None = None, **named: Any) -> DistributeTranspiler:
    made = DistributeTranspiler(config)
    given = {"pservers": SERVERS, "trainers": 2, **named}
    made.transpile(0, program=pair[0], startup_program=pair[1], **given)
    return made


def types(program: Program) -> list[str]:
    return [op.type for op in program.global_block().ops]


def test_the_default_programs_become_the_trainers() -> None:
    main, startup = programs.fit_a_line()
    with program_guard(main, startup):
        made = DistributeTranspiler()
        made.transpile([], [], 1, pservers=SERVERS, trainers=2)  # as the guide of 0.12 does
        server = made.get_pserver_program(TWO)
        begin = made.get_startup_program(TWO, server)
        assert made.get_startup_program(TWO, server, startup).to_string() == begin.to_string()
    assert made.get_trainer_program(wait_port=False) is main
    assert types(main)[-4:] == ["send", "send_barrier", "recv", "fetch_barrier"]
    assert types(startup)[-2:] == ["recv", "fetch_barrier"]
    assert types(server) == ["listen_and_serv"]
    assert types(begin) == ["fill_constant", "fill_constant"]
    both = made.get_pserver_programs(TWO)
    assert [one.to_string() for one in both] == [server.to_string(), begin.to_string()]


def test_a_plan_survives_the_text_and_a_copy() -> None:
    pair = programs.mlp()
    transpiled(pair)
    plan = Plan.from_note(pair[0].notes[SERVERS_NOTE])
    assert plan.dense == ["fc_0.w_0", "fc_0.b_0", "fc_1.w_0", "fc_1.b_0"]
    assert [tuple(rate) for rate in plan.dense_rates] == [("learning_rate_0", 1.0), ("learning_rate_0", 2.0)]
    copies = (Program.parse_from_string(pair[0].to_string()), Program.from_json(pair[0].to_json()), pair[1].clone())
    assert [Plan.from_note(other.notes[SERVERS_NOTE]) for other in copies] == [plan] * 3


def test_servers_begin_with_the_values_of_one_process() -> None:
    pair = programs.mlp()
    whole = Scope()
    Executor().run(pair[1].clone(), scope=whole)
    made = transpiled(pair)
    parts = []
    for endpoint in (ONE, TWO):
        scope = Scope()
        Executor().run(made.get_pserver_programs(endpoint)[1], scope=scope)
        parts.append(scope.tensors)
    joined = torch.cat([parts[0]["fc_0.w_0.block0"], parts[1]["fc_0.w_0.block1"]])
    assert torch.equal(joined, whole.tensors["fc_0.w_0"])
    assert torch.equal(parts[1]["fc_1.w_0"], whole.tensors["fc_1.w_0"])
    assert parts[1]["fc_0.w_0_moment1_0"].shape == (64, 200)


def test_blocks_of_one_parameter_on_one_server_have_accumulators_of_their_own() -> None:
    class First(PSDispatcher):
        def dispatch(self, varlist: Sequence[Any]) -> list[str]:
            return [self.eps[0]] * len(varlist)

    config = DistributeTranspilerConfig()
    config.split_method = First
    made = transpiled(programs.mlp(), config)
    main, startup = made.get_pserver_programs(ONE)
    names = set(main.global_block().vars)
    assert {"fc_0.w_0.block0", "fc_0.w_0.block1", "fc_0.w_0_moment1_0.block0", "fc_0.w_0_moment1_0.block1"} <= names
    assert {var.name for var in startup.list_vars()} <= names
    assert types(made.get_pserver_program(TWO)) == ["listen_and_serv"]


@pytest.mark.parametrize("make", [programs.mlp, programs.ctr, programs.word2vec, programs.schedule, programs.tied])
def test_servers_are_cut_from_the_program_as_it_was(make: Callable[[], Pair]) -> None:
    pair = make()
    before = [one.to_string() for one in pair]
    made = transpiled(pair)
    made.get_pserver_programs(ONE)
    assert [made._main.to_string(), made._startup.to_string()] == before
    assert [one.to_string() for one in pair] != before


def test_an_evaluation_program_asks_the_servers_as_well() -> None:
    pair = programs.ctr()
    memory_optimize(pair[0])
    transpiled(pair)
    assert "memory_optimize" in pair[0].notes
    assert types(pair[0].clone(for_test=True))[0] == "prefetch"
    assert "embedding_0.w_0" not in pair[0].global_block().vars


def looked_up(how: str) -> list[tuple[str, list[str]]]:
    """Requests of a program with two lookups of one table."""

    def minimize() -> None:
        first, second = (layers.data(name, [1], dtype="int64") for name in ("first", "second"))
        a = layers.embedding(first, [9, 4], is_sparse=True, param_attr="table")
        if how == "computed":
            second = layers.cast(layers.cast(second, "int32"), "int64")
        elif how == "dependent":
            second = layers.reshape(layers.argmax(a, axis=1), [-1, 1])
        elif how == "in_place":
            second = layers.cast(second, "int64")
            layers.increment(second, in_place=True)
        b = layers.embedding(second, [9, 4], is_sparse=True, param_attr="table")
        if how == "untrained":
            b.stop_gradient = True
        optimizer.SGD(0.1).minimize(layers.mean(layers.fc(layers.concat([a, b], axis=1), 1)))

    pair = built(minimize)
    transpiled(pair)
    return [(op.type, op.input("Ids")) for op in pair[0].global_block().ops if op.type.startswith("prefetch")]


@pytest.mark.parametrize(
    ("how", "requests"),
    [
        ("computed", [["first", "cast_1.tmp_0"]]),
        ("dependent", [["first"], ["reshape_0.tmp_0"]]),
        ("untrained", [["second"], ["first"]]),
        ("in_place", [["first"], ["cast_0.tmp_0"]]),
    ],
)
def test_lookups_are_one_request_where_they_can_be(how: str, requests: list[list[str]]) -> None:
    found = looked_up(how)
    assert sorted(ids for kind, ids in found if kind == "prefetch") == sorted(requests)
    trained = [ids for ids in requests if how != "untrained" or ids != ["second"]]
    assert sorted(ids for kind, ids in found if kind == "prefetch_grad") == sorted(trained)


def test_groups_are_parameters_with_one_rule_and_rate() -> None:
    def minimize() -> None:
        optimizer.LarsMomentum(0.1, 0.9).minimize(layers.mean(layers.fc(layers.data("x", [300]), 200)))

    pair = built(minimize)
    transpiled(pair)
    plan = Plan.from_note(pair[0].notes[SERVERS_NOTE])
    assert [rule.name for rule in plan.job.dense.groups] == ["lars", "lars"]
    assert [(block.parameter, block.end, block.group) for block in plan.job.dense.blocks] == [
        ("fc_0.w_0", 60_000, 0), ("fc_0.b_0", 200, 1),
    ]  # fmt: skip


def _tied_and_distributed() -> Pair:
    def minimize() -> None:
        word = layers.data("word", [1], dtype="int64")
        rows = layers.embedding(word, [20, 4], is_distributed=True, param_attr="tied_w")
        optimizer.SGD(0.1).minimize(layers.mean(layers.matmul(rows, rows.block.var("tied_w"), transpose_y=True)))

    return built(minimize)


def _clipped_table(need_clip: bool = True) -> Pair:
    def minimize() -> None:
        attr = ParamAttr("table", need_clip=need_clip)
        word = layers.data("word", [1], dtype="int64")
        out = layers.fc(layers.embedding(word, [20, 4], is_sparse=True, param_attr=attr), 1)
        limit = clip.GradientClipByGlobalNorm(1.0)
        optimizer.SGD(0.1, grad_clip=limit).minimize(layers.mean(out))

    return built(minimize)


def _frozen_and_distributed() -> Pair:
    def minimize() -> None:
        word = layers.data("word", [1], dtype="int64")
        attr = ParamAttr("table", trainable=False)
        out = layers.fc(layers.embedding(word, [20, 4], is_distributed=True, param_attr=attr), 1)
        optimizer.SGD(0.1).minimize(layers.mean(out))

    return built(minimize)


@pytest.mark.parametrize(
    ("make", "named", "message"),
    [
        (lambda: built(lambda: layers.fc(layers.data("x", [2]), 1)), {}, "the program has no optimizer; call minimize"),
        (programs.clipped, {}, "the gradient of 'fc_0.w_0' is clipped, and a mean of clipped gradients is not"),
        (_tied_and_distributed, {}, "'tied_w' is distributed, so only lookups can read it, but matmul does too"),
        (_frozen_and_distributed, {}, "'table' is distributed and no optimizer trains it"),
        (_clipped_table, {"sync_mode": False}, "clip_by_global_norm reads the gradient of 'table', whose rows"),
    ],
)
def test_programs_that_servers_cannot_train(make: Callable[[], Pair], named: dict[str, Any], message: str) -> None:
    pair = make()
    before = pair[0].to_string()
    with pytest.raises(UsageError, match=message):
        transpiled(pair, **named)
    assert pair[0].to_string() == before


def test_a_clip_is_the_trainers_where_that_is_right() -> None:
    for pair, named in ((programs.clipped(), {"trainers": 1}), (_clipped_table(need_clip=False), {"sync_mode": False})):
        transpiled(pair, **named)
        assert "clip_by_global_norm" in types(pair[0])


def test_bad_order_of_calls() -> None:
    with pytest.raises(NotReadyError, match="call transpile"):
        DistributeTranspiler().get_trainer_program()
    with pytest.raises(UsageTypeError, match="config must be a DistributeTranspilerConfig, got dict"):
        DistributeTranspiler({})  # type: ignore[arg-type]
    pair = programs.fit_a_line()
    with pytest.raises(UsageError, match="the startup program does not initialise 'fc_0.w_0'; give transpile.. the"):
        transpiled((pair[0], Program()))
    made = transpiled(pair)
    with pytest.raises(UsageError, match="transpiled already"):
        transpiled(pair)
    with pytest.raises(UsageError, match="'127.0.0.1:1' is none of the servers 127.0.0.1:6174, 127.0.0.1:6175"):
        made.get_pserver_program("127.0.0.1:1")
    with pytest.raises(EndpointError, match="has no port"):
        made.get_pserver_programs("127.0.0.1")
    for wrong in (made.get_pserver_program(ONE), pair[0]):
        with pytest.raises(UsageError, match="is not the program of server '127.0.0.1:6175'"):
            made.get_startup_program(TWO, wrong)


def test_get_trainer_program_waits_for_servers(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and does not listen
        here, there = (f"127.0.0.1:{one.getsockname()[1]}" for one in (listener, closed))
        config = DistributeTranspilerConfig()
        config.print_log = True
        pair = programs.fit_a_line()
        made = transpiled(pair, config, pservers=f"{here},{there}")
        assert f"fc_0.w_0[0:4] on {here}\n" in capfd.readouterr().out
        monkeypatch.setenv("FLEET_INIT_TIMEOUT_S", "0.01")
        with pytest.raises(DeadlineError, match=f"waited 0.01 s for servers {there}: nobody listens there"):
            made.get_trainer_program()
        assert capfd.readouterr().err == f"server not ready, waiting for {there}\n"
        assert made.get_trainer_program(wait_port=False) is pair[0]
        made.config.wait_port = False
        assert made.get_trainer_program() is pair[0]
        made.config.wait_port = True
        closed.listen()
        assert made.get_trainer_program() is pair[0]
    assert made.get_trainer_program() is pair[0]  # it has waited once; programs ask for every batch


def _trained(main: Program, startup: Program) -> Any:
    scope, exe = Scope(), Executor()
    exe.run(startup, scope=scope)
    rng = np.random.default_rng(1)
    for _ in range(3):
        feed = {"x": rng.normal(size=(5, 4)).astype("float32"), "y": rng.normal(size=(5, 1)).astype("float32")}
        exe.run(main, feed, [], scope)
    return scope.tensors["fc_0.w_0"].clone()


@pytest.mark.parametrize("way", ["nccl2", "grad_allreduce", "local_sgd", "GradAllReduce", "LocalSGD"])
@pytest.mark.parametrize("make", [programs.fit_a_line, programs.clipped, programs.schedule])
def test_trainers_with_equal_batches_train_as_one(
    make: Callable[[], Pair], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fleet_programs.jobs.kernels import KERNELS

    def doubled(*tensors: torch.Tensor) -> Any:  # what the other trainer, with the same batch, adds
        sums = torch._foreach_mul(list(tensors), 2)
        return sums[0] if len(sums) == 1 else sums

    monkeypatch.setitem(KERNELS, "c_allreduce_sum", lambda *_: doubled)
    for kind in ("gen_nccl_id", "c_broadcast"):
        monkeypatch.setitem(KERNELS, kind, lambda *_: lambda *_: None)
    main, startup = make()
    expected = _trained(main.clone(), startup.clone())
    config = DistributeTranspilerConfig()
    if way in ("GradAllReduce", "LocalSGD"):
        one = {"GradAllReduce": GradAllReduce, "LocalSGD": LocalSGD}[way]()
        one.transpile(startup, main, 0, [ONE, TWO], ONE)
    else:
        config.mode = "nccl2" if way == "nccl2" else "collective"
        config.collective_mode = None if way == "nccl2" else way
        made = DistributeTranspiler(config)
        made.transpile(0, program=main, startup_program=startup, trainers=SERVERS, current_endpoint=ONE)
        with pytest.raises(UsageError, match="has no servers; there is only get_trainer_program"):
            made.get_pserver_program(ONE)
        assert made.get_trainer_program() is main
    assert main.notes["collective"] == {"endpoints": [ONE, TWO], "trainer_id": 0}
    torch.testing.assert_close(_trained(main, startup), expected, rtol=1e-5, atol=1e-6)


def test_a_distributed_table_needs_servers() -> None:
    config = DistributeTranspilerConfig()
    config.mode = "nccl2"
    main, startup = programs.ctr()
    with pytest.raises(UsageError, match="'embedding_1.w_0' is distributed and needs servers"):
        DistributeTranspiler(config).transpile(0, program=main, startup_program=startup, trainers=SERVERS)
