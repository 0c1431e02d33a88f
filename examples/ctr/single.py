"""CTR-DNN in plain PyTorch, on one machine. train.py is the same model, trained by any number of processes.

python examples/ctr/single.py
"""

import argparse

import torch
from data import DENSE, SLOTS, batches
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits
from watch import Watch, held_out_auc


class CTR(nn.Module):
    """Rows of 10 for 26 ids, and 13 numbers, through three layers of 400."""

    def __init__(self) -> None:
        super().__init__()
        first = torch.empty(26_000_000, 10).uniform_(-0.01, 0.01)  # every id there may be: 1 GB, and 1 GB for Adagrad
        self.rows = nn.Embedding.from_pretrained(first, freeze=False, sparse=True)
        sizes = [SLOTS * 10 + DENSE, 400, 400, 400]
        hidden = [part for n in range(3) for part in (nn.Linear(sizes[n], sizes[n + 1]), nn.ReLU())]
        self.layers = nn.Sequential(*hidden, nn.Linear(400, 1))

    def forward(self, ids: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layers(torch.cat([self.rows(ids).flatten(1), dense], dim=1))
        return logits.squeeze(1)


def main(args: argparse.Namespace) -> None:
    torch.manual_seed(0)
    model = CTR()
    optimizer = torch.optim.Adam(model.layers.parameters(), lr=1e-3)
    sparse_optimizer = torch.optim.Adagrad(model.rows.parameters(), lr=0.05)
    watch = start(model, args)
    data = batches(args.batches, seed=args.seed, signal=3)
    for ids, dense, label in watch.over(data):
        logits = model(ids, dense)
        loss = binary_cross_entropy_with_logits(logits, label.float())
        optimizer.zero_grad()
        sparse_optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        sparse_optimizer.step()
        watch.note(loss, logits, label)
    finish(model, watch, args)


def start(model: CTR, args: argparse.Namespace) -> Watch:
    return Watch(args.batches, held_out_auc(model))


def finish(model: CTR, watch: Watch, _args: argparse.Namespace) -> None:
    seconds = watch.seconds
    print(f"AUC on unseen data   {watch.auc_before:.4f} before, {held_out_auc(model):.4f} after")
    print(f"speed                {watch.samples / seconds:,.0f} samples/s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="CTR-DNN in plain PyTorch.")
    parser.add_argument("--batches", type=int, default=300, help="of 1000 samples [default: 300]")
    parser.add_argument("--seed", type=int, default=2024, help="of the data [default: 2024]")
    main(parser.parse_args())
