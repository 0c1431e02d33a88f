"""The order of an epoch's samples and how a step's samples are divided: pure functions, the same on every worker."""

from __future__ import annotations

import hashlib

import torch


def permutation(num_samples: int, seed: int, epoch: int) -> torch.Tensor:
    """The order of an epoch. It depends on these three only, never on the number of workers.

    >>> sorted(permutation(5, seed=7, epoch=0).tolist())
    [0, 1, 2, 3, 4]
    """
    dtype = torch.int32 if num_samples < 2**31 else torch.int64  # it is kept for the whole epoch
    return torch.randperm(num_samples, generator=generator_of(seed, epoch), dtype=dtype)


def generator_of(*numbers: int) -> torch.Generator:
    """Random numbers of their own wherever one of these differs."""
    # Hashed, since with seed + epoch the second epoch of one seed would be the first of the next.
    digest = hashlib.blake2b(" ".join(map(str, numbers)).encode(), digest_size=4).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest))


def block(num_samples: int, worker: int, num_workers: int) -> tuple[int, int]:
    """The first sample of a worker's block and how many it has; the first workers have one more if need be.

    >>> [block(5, worker, 3) for worker in range(3)]
    [(0, 2), (2, 2), (4, 1)]
    """
    size, extra = divmod(num_samples, num_workers)
    return worker * size + min(worker, extra), size + (worker < extra)
