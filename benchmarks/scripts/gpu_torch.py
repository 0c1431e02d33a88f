"""ResNet-50 or BERT-base on one GPU as somebody who knows PyTorch well writes it by hand.

python benchmarks/scripts/gpu_torch.py --model resnet50 < LINES
"""

from __future__ import annotations

import torch
from gpu_workload import parser_of, serve, task_of


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--tf32", action="store_true", help="Products that stay float32 in TF32.")
    options = parser.parse_args()
    if options.tf32:
        torch.set_float32_matmul_precision("high")
    task, batch_size = task_of(options)
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = task.model().to(device).train()
    # Tensor cores read images fastest with the channels last; what is not an image stays as it is.
    batch = tuple(
        tensor.to(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor
        for tensor in task.batch(batch_size, device)
    )
    if batch[0].dim() == 4:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    compiled = torch.compile(model)

    def step() -> torch.Tensor:
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss: torch.Tensor = compiled(*batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    serve(task, step, batch_size, device, options)


if __name__ == "__main__":
    main()
