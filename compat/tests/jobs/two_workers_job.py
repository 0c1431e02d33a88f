"""Two workers train small imperative networks in the ways that scripts do, and worker 0 saves where they have come."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Any

import fleet
import fleet_paddle.imperative as paddle
from fleet import api
from fleet.runtime.collective_job import CollectiveJob
from fleet_paddle import dygraph
from fleet_paddle.imperative import exchange, nn
from fleet_paddle.imperative.optimizer import lr
from fleet_paddle.imperative.optimizer.methods import with_methods
from fleet_paddle.jobs.older_fleet import distributed_optimizer

STEPS = 4
SEEDS = (0, 2, 4, 10)


class LinearNet(nn.Layer):
    """The network of the tutorial."""

    def __init__(self) -> None:
        super().__init__()
        self._linear1 = nn.Linear(10, 10)
        self._linear2 = nn.Linear(10, 1)

    def forward(self, x: Any) -> Any:
        return self._linear2(self._linear1(x))


class LookedUp(nn.Layer):
    """Rows with sparse gradients, of both kinds that a script can make."""

    def __init__(self) -> None:
        super().__init__()
        self._rows = nn.Embedding(10, 1, sparse=True)
        self._older = dygraph.Embedding([10, 1], is_sparse=True)

    def forward(self, x: Any) -> Any:
        return self._rows(paddle.argmax(x, axis=1)) + self._older(paddle.argmin(x, axis=1))


def new(seed: int) -> Any:
    """The same network everywhere."""
    paddle.seed(seed)
    return LookedUp() if seed >= 10 else LinearNet()


def batch(step: int) -> tuple[Any, Any]:
    """What all workers together see in a step."""
    paddle.seed(100 + step)
    return paddle.randn([16, 10], "float32"), paddle.randn([16, 1], "float32")


def parts(index: int, count: int, step: int) -> tuple[Any, Any]:
    """What one worker sees."""
    inputs, labels = batch(step)
    size = 16 // count
    return inputs[index * size : (index + 1) * size], labels[index * size : (index + 1) * size]


def loop(model: Any, optimizer: Any, rate: Any, index: int, count: int, sends_later: bool = False) -> None:
    """The tutorial's, with everything that some version of it calls; every other step may send its gradients later."""
    loss_fn = nn.MSELoss()
    for step in range(STEPS):
        inputs, labels = parts(index, count, step)
        with model.no_sync() if sends_later and step % 2 else nullcontext():
            loss = loss_fn(model(inputs), labels)
            print(f"step:{step}\tloss:{loss.numpy()}", flush=True)
            if count > 1:
                loss = model.scale_loss(loss)
            loss.backward()
        if count > 1:
            model.apply_collective_grads()
        optimizer.step()
        optimizer.clear_grad()
        if rate is not None:
            rate.step()


def optimizers(nets: list[Any]) -> list[tuple[Any, Any]]:
    """An optimizer for each network, and its schedule."""
    rate = lr.ExponentialDecay(0.1, 0.5)
    clip = nn.ClipGradByGlobalNorm(0.5)
    return [
        (paddle.optimizer.Adam(learning_rate=0.01, parameters=nets[0].parameters()), None),
        (paddle.optimizer.Momentum(rate, parameters=nets[1].parameters(), grad_clip=clip), rate),
        (paddle.optimizer.Adam(0.01, parameters=nets[2].parameters(), grad_clip=nn.ClipGradByValue(0.01)), None),
        (paddle.optimizer.SGD(0.1, parameters=nets[3].parameters()), None),
    ]


def exchange_all(index: int) -> Any:
    """Every way from one worker to another; what worker 0 has in the end."""
    mine = paddle.to_tensor([1.0, 2.0]) * (index + 1)
    alone, both = exchange.new_group([1]), exchange.new_group()
    assert (alone.rank, both.rank, both.nranks) == (index - 1, index, 2)
    exchange.all_reduce(mine, group=alone)  # of one worker: as it was
    if index == 0:
        exchange.send(mine * 10, 1)
        back = paddle.zeros([2])
        exchange.recv(back, 1)
    else:
        got = paddle.zeros([2])
        exchange.recv(got, 0)
        exchange.send(got + mine, 0)
        back = got
    turned: list[Any] = []
    exchange.alltoall([mine, mine + 100], turned, both)
    part = paddle.zeros([2])
    exchange.scatter(part, [mine, mine - 7] if index == 1 else None, src=1)
    exchange.barrier(both)
    return paddle.concat([back, *turned, part])


def main(target: str) -> None:
    """As fleet wants it, as DataParallel does it, with the optimizer's state divided, and with sparse gradients."""
    fleet.init(is_collective=True)
    index, count = paddle.get_rank(), paddle.get_world_size()
    nets = [new(seed + index) for seed in SEEDS]  # worker 0's are what counts
    made = optimizers(nets)

    adam = distributed_optimizer(made[0][0])
    loop(fleet.distributed_model(nets[0]), adam, None, index, count)

    loop(paddle.DataParallel(nets[1]), *made[1], index, count)

    strategy = fleet.DistributedStrategy()
    strategy.sharding = True
    strategy.sharding_configs = {"stage": 1}
    pairs = CollectiveJob(api.fleet._identity(), strategy, fleet.device)
    divided = with_methods(pairs.add_optimizer(made[2][0]))
    loop(pairs.add_model(nets[2]), divided, None, index, count)

    loop(paddle.DataParallel(nets[3]), *made[3], index, count, sends_later=True)

    total = paddle.ones([2]) * (index + 1)
    paddle.all_reduce(total)
    exchanged = exchange_all(index)
    if index == 0:
        state = {f"{place}.{name}": value for place, net in enumerate(nets) for name, value in net.state_dict().items()}
        paddle.save({**state, "total": total, "exchanged": exchanged}, target)


if __name__ == "__main__":
    main(sys.argv[1])
