"""Dense parameters of a server on a GPU: torch's own optimizers in place of the native rules."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from fleet.errors import NotSupportedError, UsageError

_Args = Mapping[str, float]
