"""What each golden text holds, programs before and after one pass; run as a script, this writes them anew."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER.parents[1]), str(FOLDER.parents[3] / "tests")]

from fleet.strategy import DistributedStrategy  # noqa: E402
from fleet_programs import layers  # noqa: E402
from fleet_programs.jobs.meta import for_workers, optimizer_of  # noqa: E402
from fleet_programs.optimizer import SGD, Adam, Momentum, Optimizer  # noqa: E402
from fleet_programs.program.notes import SERVERS_NOTE  # noqa: E402
from fleet_programs.program.program import Program  # noqa: E402
from fleet_programs.transpiler import DistributeTranspilerConfig  # noqa: E402
from fleet_programs.transpiler.passes.check_finite import check_finite  # noqa: E402
from fleet_programs.transpiler.passes.collective_startup import collective_startup  # noqa: E402
from fleet_programs.transpiler.passes.dense_gradients import dense_gradients  # noqa: E402
from fleet_programs.transpiler.passes.drop_updates import drop_updates  # noqa: E402
from fleet_programs.transpiler.passes.grad_allreduce import grad_allreduce  # noqa: E402
from fleet_programs.transpiler.passes.local_lookups import local_lookups  # noqa: E402
from fleet_programs.transpiler.passes.local_sgd import local_sgd, local_sgd_startup  # noqa: E402
from fleet_programs.transpiler.passes.prefetch import prefetch  # noqa: E402
from fleet_programs.transpiler.passes.send import send  # noqa: E402
from fleet_programs.transpiler.passes.server_program import server_program  # noqa: E402
from fleet_programs.transpiler.passes.server_startup import server_startup  # noqa: E402
from fleet_programs.transpiler.passes.trainer_startup import trainer_startup  # noqa: E402
from fleet_programs.transpiler.planning.arguments import read  # noqa: E402
from fleet_programs.transpiler.planning.plan import Plan, make_plan  # noqa: E402
from fleet_programs.transpiler.planning.tables import find_tables  # noqa: E402
from fleet_programs.transpiler.programs import for_trainer  # noqa: E402
from program_support import trained_programs as programs  # noqa: E402
from program_support.trained_programs import Pair  # noqa: E402

SERVERS = "10.0.0.1:6174,10.0.0.2:6174"
TRAINERS = ["10.0.0.1:6170", "10.0.0.2:6170"]

Part = tuple[str, str]
"""A heading and the text below it."""


def planned(pair: Pair, mode: str = "sync", trainers: int = 2) -> Plan:
    """The plan of a program for two servers."""
    config = DistributeTranspilerConfig()
    if mode != "sync":
        config.sync_mode = False
    config.half_async, config.geo_sgd_mode = mode == "half_async", mode == "geo"
    named = {"program": pair[0], "startup_program": pair[1], "pservers": SERVERS, "trainers": trainers}
    return make_plan(pair[0], pair[1], read((1,) if trainers > 1 else (0,), named, config))


def text(program: Program) -> str:
    """A program as text; its plan has a golden text of its own."""
    other = program.clone()
    other.notes.pop(SERVERS_NOTE, None)
    return other.to_string()


def changed(name: str, before: Program, after: Program) -> Iterator[Part]:
    yield f"{name}, before", text(before)
    yield f"{name}, after", text(after)


def _plan() -> Iterator[Part]:
    for make in (programs.fit_a_line, programs.mlp, programs.ctr, programs.word2vec, programs.schedule):
        plan = planned(make())
        yield make.__name__, json.dumps(plan.to_note(), indent=1) + "\n"


def _find_tables() -> Iterator[Part]:
    for make in (programs.fit_a_line, programs.mlp, programs.ctr, programs.word2vec, programs.tied, programs.looped):
        yield make.__name__, f"{find_tables(make()[0])}\n"


def _dense_gradients() -> Iterator[Part]:
    pair = programs.tied()
    yield from changed("tied", pair[0], dense_gradients(pair[0], planned(pair)))


def _prefetch() -> Iterator[Part]:
    for make in (programs.ctr, programs.word2vec):
        pair = make()
        yield from changed(make.__name__, pair[0], prefetch(pair[0], planned(pair)))


def _local_lookups() -> Iterator[Part]:
    pair = programs.word2vec()
    plan = planned(pair)
    before = prefetch(pair[0], plan)
    yield from changed("word2vec", before, local_lookups(before, plan))


def _check_finite() -> Iterator[Part]:
    pair = programs.clipped()
    yield from changed("clipped, geo", pair[0], check_finite(pair[0], planned(pair, "geo")))


def _send() -> Iterator[Part]:
    for mode in ("sync", "async", "geo"):
        pair = programs.fit_a_line()
        yield from changed(f"fit_a_line, {mode}", pair[0], send(pair[0], planned(pair, mode)))


def _drop_updates() -> Iterator[Part]:
    for make, mode in ((programs.mlp, "sync"), (programs.schedule, "sync"), (programs.clipped, "async")):
        pair = make()
        before = send(pair[0], planned(pair, mode))
        yield from changed(f"{make.__name__}, {mode}", before, drop_updates(before))


def _trainer_startup() -> Iterator[Part]:
    for make in (programs.mlp, programs.ctr):
        pair = make()
        yield from changed(make.__name__, pair[1], for_trainer(*pair, planned(pair))[1])
    pair = programs.schedule()
    yield from changed("schedule, geo", pair[1], trainer_startup(pair[1], planned(pair, "geo"), ()))


def _server_program() -> Iterator[Part]:
    pair = programs.mlp()
    yield "mlp, before", text(pair[0])
    for server in (0, 1):
        yield f"mlp, server {server}", text(server_program(pair[0], planned(pair), server))
    for mode in ("async", "geo"):
        yield f"mlp, {mode}, server 1", text(server_program(pair[0], planned(pair, mode), 1))
    pair = programs.ctr()
    yield "ctr, one trainer, server 0", text(server_program(pair[0], planned(pair, trainers=1), 0))


def _server_startup() -> Iterator[Part]:
    pair = programs.mlp()
    yield "mlp, before", text(pair[1])
    for server in (0, 1):
        yield f"mlp, server {server}", text(server_startup(pair[1], pair[0], planned(pair), server))
    yield "mlp, geo, server 1", text(server_startup(pair[1], pair[0], planned(pair, "geo"), 1))


def _grad_allreduce() -> Iterator[Part]:
    for make in (programs.fit_a_line, programs.clipped):
        main, _ = make()
        yield from changed(make.__name__, main, grad_allreduce(main, 2))


def _local_sgd() -> Iterator[Part]:
    main, startup = programs.fit_a_line()
    after = local_sgd(main, 2)
    yield from changed("fit_a_line", main, after)
    yield from changed("fit_a_line, startup", startup, local_sgd_startup(startup, after))


def _collective_startup() -> Iterator[Part]:
    main, startup = programs.fit_a_line()
    yield from changed("fit_a_line", startup, collective_startup(startup, main, TRAINERS, 1))


def _trainer() -> Iterator[Part]:
    for make, mode in ((programs.ctr, "sync"), (programs.word2vec, "geo")):
        pair = make()
        yield from changed(f"{make.__name__}, {mode}", pair[0], for_trainer(*pair, planned(pair, mode))[0])


def _flow() -> Iterator[Part]:
    """Blocks of branches and loops: with their gradients, as a trainer has them, and in evaluation."""
    pair = programs.looped()
    trainer = for_trainer(*pair, planned(pair))[0]
    yield from changed("looped", pair[0], trainer)
    yield "looped, a trainer's evaluation", text(trainer.clone(for_test=True))
    yield "looped, all-reduce", text(grad_allreduce(pair[0], 2))


def _meta(make: Callable[[], Optimizer], **fields: object) -> Iterator[Part]:
    """What a strategy makes of a program, in one process and in one of two workers."""
    strategy = DistributedStrategy()
    for name, value in fields.items():
        setattr(strategy, name, value)

    def minimize() -> None:
        x, y = layers.data("x", [4]), layers.data("y", [1])
        hidden = layers.gelu(layers.fc(layers.gelu(layers.fc(x, 3, name="first")), 3, name="second"))
        loss = layers.mean(layers.square_error_cost(layers.fc(hidden, 1, name="last"), y))
        optimizer_of(make(), strategy).minimize(loss)

    pair = programs.built(minimize)
    for endpoints in (TRAINERS[:1], TRAINERS):
        main, startup = for_workers(pair, strategy, endpoints, 0)
        if endpoints != TRAINERS[:1] or not strategy.localsgd:
            yield f"main, {len(endpoints)} workers", text(main)
            yield f"startup, {len(endpoints)} workers", text(startup)


CASES: dict[str, Callable[[], Iterator[Part]]] = {
    "plan": _plan,
    "find_tables": _find_tables,
    "dense_gradients": _dense_gradients,
    "prefetch": _prefetch,
    "flow": _flow,
    "local_lookups": _local_lookups,
    "check_finite": _check_finite,
    "send": _send,
    "drop_updates": _drop_updates,
    "trainer": _trainer,
    "trainer_startup": _trainer_startup,
    "server_program": _server_program,
    "server_startup": _server_startup,
    "grad_allreduce": _grad_allreduce,
    "local_sgd": _local_sgd,
    "collective_startup": _collective_startup,
    "meta_localsgd": lambda: _meta(lambda: SGD(0.1), localsgd=True, localsgd_configs={"k_steps": 4, "begin_step": 2}),
    "meta_gradient_merge": lambda: _meta(
        lambda: Momentum(0.1, 0.9), gradient_merge=True, gradient_merge_configs={"k_steps": 4}
    ),
    "meta_lars": lambda: _meta(
        lambda: Momentum(0.1, 0.9), lars=True, lars_configs={"exclude_from_weight_decay": ["b_0"]}
    ),
    "meta_lamb": lambda: _meta(lambda: Adam(0.1), lamb=True, lamb_configs={"exclude_from_weight_decay": ["b_0"]}),
    "meta_recompute": lambda: _meta(
        lambda: SGD(0.1), recompute=True, recompute_configs={"checkpoints": ["first.tmp_1", "second.tmp_1"]}
    ),
    "meta_amp": lambda: _meta(lambda: SGD(0.1), amp=True, amp_configs={"custom_black_list": ["gelu"]}),
    "meta_amp_bfloat16": lambda: _meta(lambda: SGD(0.1), amp=True, amp_configs={"dtype": "bfloat16"}),
}


def rendered(name: str) -> str:
    return "\n".join(f"==== {heading}\n{body}" for heading, body in CASES[name]())


if __name__ == "__main__":
    for case in CASES:
        (FOLDER / f"{case}.txt").write_text(rendered(case))
