"""`summary`: the layers of a network with the shapes that they give and how many parameters they have."""

from __future__ import annotations

from typing import Any

import torch

from fleet.errors import UsageError
from fleet_paddle.hapi.spec import InputSpec
from fleet_paddle.imperative.place import current
from fleet_paddle.imperative.tensor import as_paddle

__all__ = ["summary"]

_COLUMNS = ("Layer (type)", "Input Shape", "Output Shape", "Param #")
_MB = 2**20


def summary(net: Any, input_size: Any = None, dtypes: Any = None, input: Any = None) -> dict[str, int]:
    """Print a row for each layer, and totals; gives back {'total_params': ..., 'trainable_params': ...}.

    `input_size` is a shape, or a list of shapes for several inputs; `input` is given in its place, to be used itself.
    Sizes that may be any are 1.
    """
    inputs = _inputs(input_size, dtypes) if input is None else input if isinstance(input, list | tuple) else [input]
    rows: list[tuple[str, str, str, int]] = []
    given = [net.register_forward_hook(_row(rows, ""))] if not list(net.children()) else []
    for name, layer in net.named_modules():
        if layer is not net and not list(layer.children()):
            given.append(layer.register_forward_hook(_row(rows, name)))
    was_training = net.training
    try:
        with torch.no_grad():
            outputs = net.eval()(*inputs)
    finally:
        net.train(was_training)
        for one in given:
            one.remove()
    every = list(net.parameters())
    total = sum(one.numel() for one in every)
    trained = sum(one.numel() for one in every if one.requires_grad)
    _print(rows, total, trained, sum(_bytes(one) for one in (inputs, outputs)))
    return {"total_params": total, "trainable_params": trained}


def _row(rows: list[tuple[str, str, str, int]], name: str) -> Any:
    def hook(layer: Any, inputs: Any, output: Any) -> None:
        label = f"{name or type(layer).__name__} ({type(layer).__name__})"
        own = sum(one.numel() for one in layer.parameters())
        rows.append((label, _shapes(inputs), _shapes(output), own))

    return hook


def _inputs(input_size: Any, dtypes: Any) -> list[Any]:
    specs = specs_of(input_size, dtypes)
    return [as_paddle(one.example().to(current())) for one in specs]


def specs_of(input_size: Any, dtypes: Any = None) -> list[InputSpec]:
    """Descriptions of inputs given as a shape, a list of shapes, or descriptions."""
    if isinstance(input_size, InputSpec):
        return [input_size]
    if not isinstance(input_size, list | tuple) or not input_size:
        raise UsageError(f"summary: input_size must be a shape or a list of shapes, got {input_size!r}")
    if all(isinstance(one, int) or one is None for one in input_size):
        input_size = [input_size]
    kinds = dtypes if isinstance(dtypes, list | tuple) else [dtypes] * len(input_size)
    return [
        one if isinstance(one, InputSpec) else InputSpec(one, "float32" if kind is None else kind)
        for one, kind in zip(input_size, kinds, strict=True)
    ]


def _shapes(several: Any) -> str:
    if isinstance(several, torch.Tensor):
        return str(list(several.shape))
    if isinstance(several, list | tuple):
        texts = [_shapes(one) for one in several]
        return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return "-"


def _bytes(several: Any) -> int:
    if isinstance(several, torch.Tensor):
        return several.numel() * several.element_size()
    return sum(_bytes(one) for one in several) if isinstance(several, list | tuple) else 0


def _print(rows: list[tuple[str, str, str, int]], total: int, trained: int, num_bytes: int) -> None:
    texts = [_COLUMNS, *((label, given, made, f"{own:,}") for label, given, made, own in rows)]
    widths = [max(len(row[column]) for row in texts) + 2 for column in range(len(_COLUMNS))]
    line = "-" * sum(widths)
    print(line)
    for number, row in enumerate(texts):
        print("".join(text.center(width) for text, width in zip(row, widths, strict=True)))
        if number == 0:
            print("=" * sum(widths))
    print(
        f"{line}\nTotal params: {total:,}\nTrainable params: {trained:,}\nNon-trainable params: {total - trained:,}\n"
        f"Input and output (MB): {num_bytes / _MB:.2f}\nParams (MB): {total * 4 / _MB:.2f}\n{line}"
    )
