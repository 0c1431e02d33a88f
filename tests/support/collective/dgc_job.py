"""A small regression under deep gradient compression: as a script of two workers, and both of them in one process."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD

import fleet
from fleet.collective.parts.topk import Ramp, TopK
from support.collective.slow_dgc import SlowWorker, send_all

NUM_COMPARED, NUM_STEPS = 8, 40
# Two plain steps, then stages: held back so little that the whole gradient is less to send, then truly sparse ones.
SPARSITY, BEGIN_STEP, RAMP_STEPS = [0.25, 0.75, 0.99], 2, 3
LR, MOMENTUM, WEIGHT_DECAY = 0.02, 0.9, 1e-3


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 64), nn.Tanh(), nn.Linear(64, 1))


def make_sgd(model: nn.Module) -> SGD:
    return SGD(model.parameters(), lr=LR, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)


def loss_of(model: nn.Module, worker: int, step: int) -> Tensor:
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(1000 * worker + step % 4))
    return nn.functional.mse_loss(model(x), x[:, :8].sum(1, keepdim=True))


def train() -> None:
    """One worker of two; leaves its models, losses and bytes in the working folder."""
    fleet.init(is_collective=True)
    worker = fleet.worker_index()
    model = make_model()
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.1, gradient_as_bucket_view=True)
    topk = TopK({param: name for name, param in model.named_parameters()}, Ramp(SPARSITY, BEGIN_STEP, RAMP_STEPS))
    topk.attach(ddp)
    optimizer = topk.take(make_sgd(model))
    losses, sent = [], []
    for step in range(NUM_STEPS):
        before = topk.bytes_sent
        optimizer.zero_grad()
        loss = loss_of(ddp, worker, step)
        loss.backward()
        optimizer.step()
        topk.advance()
        losses.append(loss.item())
        sent.append(topk.bytes_sent - before)
        if step + 1 == NUM_COMPARED:
            torch.save(model.state_dict(), f"compared.{worker}")
    torch.save({"losses": losses, "sent": sent, "model": model.state_dict()}, f"end.{worker}")


def simulate() -> dict[str, Tensor]:
    """The model after the steps to compare, by a compression that is easy to follow."""
    model = make_model()
    sgd = make_sgd(model)
    workers = {name: [SlowWorker(MOMENTUM, WEIGHT_DECAY) for _ in range(2)] for name, _ in model.named_parameters()}
    params = list(model.parameters())
    for step in range(NUM_COMPARED):
        grads = [torch.autograd.grad(loss_of(model, worker, step), params) for worker in range(2)]
        for (name, param), *mine in zip(model.named_parameters(), *grads, strict=True):
            param.grad = (mine[0] + mine[1]) / 2
            if step < BEGIN_STEP or param.numel() < 16384:
                continue
            if step == BEGIN_STEP:
                for one in workers[name]:
                    one.u = sgd.state[param]["momentum_buffer"].clone()
            sparsity = SPARSITY[min(2, step - BEGIN_STEP)]
            param.data.sub_(LR * send_all(workers[name], mine, param.detach(), sparsity))
            param.grad = None
        sgd.step()
    return model.state_dict()


if __name__ == "__main__":
    train()
