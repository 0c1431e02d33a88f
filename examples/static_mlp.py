"""A small network as a static program; one script for one process, for servers and for all-reduce.

    python examples/static_mlp.py                                                              one process
    fleetrun --server_num 2 --worker_num 2 examples/static_mlp.py                              beside servers
    fleetrun --nproc_per_node 2 --device cpu examples/static_mlp.py --mode collective          without

Lines marked (1) to (5) are all that a distributed job adds to the program of one process.
"""

import argparse

import numpy as np

import fleet
import fleet_programs as static
from fleet_programs import Variable, layers

WIDTH, HIDDEN = 32, 128
MODES = ("sync", "async", "half_async", "geo", "collective")
Feed = dict[str, np.ndarray]


def network() -> tuple[Variable, Variable]:
    """The loss and the share of right answers of 128 x 128 x 2, over points that are fed as x and y."""
    x = static.data("x", [None, WIDTH])
    y = static.data("y", [None, 1], "int64")
    hidden = layers.fc(layers.fc(x, HIDDEN, act="tanh"), HIDDEN, act="tanh")
    prediction = layers.fc(hidden, 2, act="softmax")
    return layers.mean(layers.cross_entropy(prediction, y)), layers.accuracy(prediction, y)


def points(count: int, seed: int) -> Feed:
    """Random points, and on which side of a bent surface each lies."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((count, WIDTH), np.float32)
    bent = x[:, :4].sum(axis=1) + 2 * np.sin(2 * x[:, 4])
    return {"x": x, "y": (bent > 0).astype(np.int64)[:, None]}


def main(args: argparse.Namespace) -> None:
    fleet.init(is_collective=args.mode == "collective", strategy=strategy_of(args.mode))  # (1)
    loss, accuracy = network()
    program = static.default_main_program()
    evaluation = program.clone(for_test=True)  # the same parameters; before minimize, so it trains nothing
    fleet.distributed_optimizer(static.optimizer.SGD(0.3)).minimize(loss)  # (2) the program is this worker's now
    if fleet.is_server():  # (3)
        return fleet.run_server()

    executor = static.Executor(fleet.device)
    executor.run(static.default_startup_program())  # first values; then workers and servers have the same
    bar = fleet.progress(range(args.steps), "training", enabled=fleet.is_first_worker())
    for step in bar:
        seed = step * fleet.worker_num() + fleet.worker_index()  # (4) each worker has its own data
        (cost,) = executor.run(program, feed=points(args.batch_size, seed), fetch_list=[loss])
        if step % 50 == 0:
            bar.show(loss=float(cost[0]))
    fleet.stop_worker()  # (5) what is queued is sent, and the last parameters come home
    right, cost = executor.run(evaluation, feed=points(10_000, seed=2**32), fetch_list=[accuracy, loss])
    if fleet.is_first_worker():
        kind = f"{args.mode}, {fleet.worker_num()} worker(s)"
        print(f"{kind}: loss {cost[0]:.4f}, accuracy on unseen points {right[0]:.3f}")


def strategy_of(mode: str) -> fleet.DistributedStrategy:
    """The fields that choose a mode; docs/static.md says what each means."""
    strategy = fleet.DistributedStrategy()
    if mode != "collective":
        strategy.a_sync = mode != "sync"
        strategy.a_sync_configs.half_async = mode == "half_async"
        strategy.a_sync_configs.k_steps = 10 if mode == "geo" else 0
    return strategy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="train a small network as a static program")
    parser.add_argument("--mode", choices=MODES, default="sync")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch-size", type=int, default=128, help="of each worker")
    main(parser.parse_args())
