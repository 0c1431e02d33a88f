"""The streams of random numbers that a worker draws from: torch's (CPU and its device), Python's and numpy's."""

import base64
import hashlib
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


def collect(device: torch.device) -> dict[str, Any]:
    """The states of all streams, as values and tensors."""
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


class StreamChanges:
    """The streams that were drawn from since this was made, as JSON that is small enough to go with every push.

    The next life of a worker comes to the place where this was made with streams of its own; those that its former life
    has not drawn from stay as they are.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._first = self._streams()

    def _streams(self) -> dict[str, Any]:
        name, *numbers = np.random.get_state()
        found: dict[str, Any] = {"torch": _text_of(torch.get_rng_state()), "python": random.getstate()}
        if name == "MT19937":
            found["numpy"] = [name, np.asarray(numbers[0]).tolist(), *numbers[1:]]
        if self._device.type == "cuda":
            found["cuda"] = _text_of(torch.cuda.get_rng_state(self._device))
        return found

    def changed(self) -> dict[str, Any]:
        """The state of each stream that has moved."""
        return {name: state for name, state in self._streams().items() if state != self._first.get(name)}

    def restore(self, changed: Mapping[str, Any]) -> None:
        """Set these streams to where they were."""
        if "torch" in changed:
            torch.set_rng_state(_tensor_of(changed["torch"]))
        if "python" in changed:
            version, words, gauss = changed["python"]
            random.setstate((version, tuple(words), gauss))
        if "numpy" in changed:
            name, words, *numbers = changed["numpy"]
            np.random.set_state((name, np.array(words, np.uint32), *numbers))
        if "cuda" in changed and self._device.type == "cuda":
            torch.cuda.set_rng_state(_tensor_of(changed["cuda"]), self._device)


def _text_of(state: torch.Tensor) -> str:
    return base64.b64encode(state.numpy().tobytes()).decode()


def _tensor_of(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)


def _seed(state: torch.Tensor, worker: int) -> int:
    digest = hashlib.blake2b(state.numpy().tobytes() + worker.to_bytes(8, "little"), digest_size=8).digest()
    return int.from_bytes(digest) >> 1
