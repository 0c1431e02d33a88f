"""DeepFM on tab-separated clicks, a label, 4 numbers and 8 categories a line: train.py train.tsv test.tsv"""

import sys
import zlib

import torch
from torch import nn

import fleet

EPOCHS, NUMBERS, CATEGORIES, DIM = 2, 4, 8, 8


class DeepFM(nn.Module):
    def __init__(self):
        super().__init__()
        adagrad = fleet.rules.Adagrad(lr=0.05)
        self.weights = fleet.nn.Embedding(1, rule=adagrad)  # rows of any id, on the servers
        self.factors = fleet.nn.Embedding(DIM, rule=adagrad)
        wide = CATEGORIES * DIM + NUMBERS
        self.deep = nn.Sequential(nn.BatchNorm1d(wide), nn.Linear(wide, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, ids, numbers):
        rows = self.factors(ids)  # [batch, categories, dim]
        pairs = (rows.sum(1).square() - rows.square().sum(1)).sum(1) / 2
        deep = self.deep(torch.cat([rows.flatten(1), numbers], 1)).squeeze(1)
        return self.weights(ids).sum((1, 2)) + pairs + deep


def read(path):
    with open(path) as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    labels = torch.tensor([float(line[0]) for line in lines])
    numbers = torch.tensor([[float(text or 0) for text in line[1 : 1 + NUMBERS]] for line in lines])
    texts = [[f"{place} {text}" for place, text in enumerate(line[1 + NUMBERS :])] for line in lines]
    return torch.tensor([[zlib.crc32(text.encode()) for text in line] for line in texts]), numbers, labels


def main(train, test):
    fleet.init()
    if fleet.is_server():
        return fleet.run_server()
    model = fleet.distributed_model(DeepFM())
    optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=1e-3))
    fleet.init_worker()
    batches = fleet.data.shard(read(train), batch_size=256, shuffle=True)
    unseen = fleet.data.shard(read(test), batch_size=1024, uneven="join")
    parts = {"model": model, "optimizer": optimizer, "data": batches}
    with fleet.Checkpoint("checkpoints", **parts, best="max", resume=True) as checkpoint:
        step = checkpoint.step
        for epoch in range(batches.epoch, EPOCHS):
            for ids, numbers, label in fleet.progress(batches, f"epoch {epoch}", enabled=fleet.is_first_worker()):
                loss = nn.functional.binary_cross_entropy_with_logits(model(ids, numbers), label)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                step += 1
                if step % 20 == 0:
                    checkpoint.save(step)  # in the background
            auc = fleet.evaluate(model, unseen, {"auc": fleet.metrics.AUC(from_logits=True)})["auc"]
            print(f"epoch {epoch}: AUC {auc:.4f} on unseen clicks")
            checkpoint.save(step, metric=auc)
    fleet.save_inference_model("model")
    fleet.stop_worker()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
