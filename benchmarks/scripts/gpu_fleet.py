"""ResNet-50 or BERT-base on one GPU through Fleet, as a user writes it who leaves the tuning to `strategy.auto`.

python benchmarks/scripts/gpu_fleet.py --model resnet50 < LINES
"""

from __future__ import annotations

import torch
from gpu_workload import parser_of, serve, task_of

import fleet


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--kernel-search", help="Another strategy.compile_configs.kernel_search.")
    parser.add_argument("--mode", default="default", help="Another strategy.compile_configs.mode.")
    options = parser.parse_args()
    task, batch_size = task_of(options)
    strategy = fleet.DistributedStrategy()
    strategy.auto = True
    if options.kernel_search is not None:
        strategy.compile_configs.kernel_search = options.kernel_search
    strategy.compile_configs.mode = options.mode
    fleet.init(is_collective=True, strategy=strategy)
    torch.manual_seed(0)
    model = task.model()
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9))
    distributed = fleet.distributed_model(model)
    batch = task.batch(batch_size, fleet.device)

    def step() -> torch.Tensor:
        loss: torch.Tensor = distributed(*batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    serve(task, step, batch_size, fleet.device, options)


if __name__ == "__main__":
    main()
