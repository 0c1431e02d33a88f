"""What variables are, told below them: their shapes, and the two kinds of values that they stand for."""

from __future__ import annotations

Shape = tuple[int, ...]

TENSOR = "tensor"
ROWS = "rows"  # some rows of a tensor and their indexes: the gradient of a sparse lookup
