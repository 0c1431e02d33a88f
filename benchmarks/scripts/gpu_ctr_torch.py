"""CTR-DNN with all rows and the sums of their rule in GPU memory, by torch alone: what the card allows.

python benchmarks/scripts/gpu_ctr_torch.py < LINES
"""

from __future__ import annotations

import time

import torch
from gpu_ctr_workload import (
    DENSE_LR,
    ROW_EPS,
    ROW_LR,
    SLOTS,
    VOCAB,
    WIDTH,
    Batch,
    Batches,
    device_of,
    layers,
    parser_of,
    serve,
)
from torch.nn import functional as F  # noqa: N812


def main() -> None:
    begun = time.perf_counter()
    options = parser_of(__doc__).parse_args()
    torch.manual_seed(0)
    device = device_of()
    model = layers().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=DENSE_LR, fused=device.type == "cuda")
    rows = torch.empty(max(options.rows, SLOTS * VOCAB), WIDTH, device=device).uniform_(-1e-2, 1e-2)
    sums = torch.zeros_like(rows)

    def train(data: Batches) -> tuple[list[torch.Tensor], dict[str, float]]:
        losses = []
        for batch in data:
            ids, dense, label = (tensor.to(device, non_blocking=True) for tensor in batch)
            keys, inverse = torch.unique(ids, return_inverse=True)
            own = rows[keys].requires_grad_()
            inputs = torch.cat([F.embedding(inverse, own).flatten(1), dense], dim=1)
            loss = F.cross_entropy(model(inputs), label)
            loss.backward()
            with torch.no_grad():
                grad = own.grad
                assert grad is not None
                total = sums[keys] + grad * grad
                sums[keys] = total
                rows[keys] = own - ROW_LR * grad / (total.sqrt() + ROW_EPS)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
        return losses, {}

    @torch.no_grad()
    def predict(batch: Batch) -> torch.Tensor:
        inputs = torch.cat([rows[batch.ids.to(device)].flatten(1), batch.dense.to(device)], dim=1)
        found: torch.Tensor = model(inputs).softmax(dim=1)[:, 1]
        return found

    serve(options, train, predict, begun)


if __name__ == "__main__":
    main()
