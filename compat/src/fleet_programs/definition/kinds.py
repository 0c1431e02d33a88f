"""What variables are, told below them: their shapes, and the kinds of values that they stand for."""

from __future__ import annotations

Shape = tuple[int, ...]

TENSOR = "tensor"
ROWS = "rows"  # some rows of a tensor and their indexes: the gradient of a sparse lookup
ARRAY = "array"  # several tensors in their order, which loops write and read one by one
SCOPES = "scopes"  # what an operator with blocks keeps of their runs for its gradient
KINDS = (TENSOR, ROWS, ARRAY, SCOPES)
