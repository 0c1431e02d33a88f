"""The streams of random numbers that a worker draws from: torch's (CPU and its device), Python's and numpy's."""

from __future__ import annotations

import hashlib
import random
from typing import Any

import numpy as np
import torch


def collect(device: torch.device) -> dict[str, Any]:
    """Where the streams are now, as values and tensors."""
    version, words, gauss = random.getstate()
    found: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "python": {"version": version, "words": np.array(words, np.uint32), "gauss": gauss},
    }
    name, *numbers = np.random.get_state()
    if name == "MT19937":
        found["numpy"] = dict(zip(("words", "position", "has_gauss", "gauss"), numbers, strict=True))
    if device.type == "cuda":
        found["cuda"] = torch.cuda.get_rng_state(device)
    return found


def restore(saved: dict[str, Any], device: torch.device) -> None:
    """Go on where the streams were. What was not saved, such as a GPU's, is derived from what was."""
    if device.type == "cuda" and "cuda" not in saved:
        torch.cuda.manual_seed(_seed(saved["torch"], 0))
    torch.set_rng_state(saved["torch"])
    python = saved["python"]
    random.setstate((python["version"], tuple(python["words"].tolist()), python["gauss"]))
    if numbers := saved.get("numpy"):
        np.random.set_state(("MT19937", *numbers.values()))
    if device.type == "cuda" and "cuda" in saved:
        torch.cuda.set_rng_state(saved["cuda"], device)


def derive(torch_state: torch.Tensor, worker: int, device: torch.device) -> None:
    """Streams for a worker that was not there: seeded by a hash of the state of worker 0's torch and the index."""
    seed = _seed(torch_state, worker)
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)


def _seed(state: torch.Tensor, worker: int) -> int:
    digest = hashlib.blake2b(state.numpy().tobytes() + worker.to_bytes(8, "little"), digest_size=8).digest()
    return int.from_bytes(digest) >> 1
