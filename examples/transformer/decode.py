"""Translations: word by word the best, or the best of several that are followed side by side."""

from __future__ import annotations

import torch
from model import Transformer
from text import BEGIN, END, PAD
from torch import Tensor


@torch.no_grad()
def translate(net: Transformer, source: Tensor, longest: int, beam: int = 1, alpha: float = 0.6) -> list[list[int]]:
    """The tokens of each row of `source`, translated; `beam` 1 is greedy.

    `beam` beginnings of each sentence are followed. At the end the one with the highest log-probability counts, divided
    by ((5 + length) / 6) ** alpha, since every further word makes a sentence less likely.
    """
    num, device = len(source), source.device
    seen, mask = (one.repeat_interleave(beam, dim=0) for one in net.encode(source))
    tokens = torch.full((num * beam, 1), BEGIN, device=device)
    # All beams begin alike: only the first counts at first, or all would follow the same words.
    score = torch.full((num, beam), -torch.inf, device=device)
    score[:, 0] = 0.0
    is_done = torch.zeros(num * beam, dtype=torch.bool, device=device)
    lengths = torch.ones(num * beam, device=device)
    for _ in range(longest - 1):
        chance = net.decode(tokens, seen, mask)[:, -1].float().log_softmax(dim=-1)
        chance[:, [PAD, BEGIN]] = -torch.inf
        chance[is_done] = -torch.inf
        chance[is_done, PAD] = 0.0  # a sentence that has ended goes on as it is
        both = score[..., None] + chance.view(num, beam, -1)
        score, flat = both.flatten(1).topk(beam, dim=1)
        came_from = (flat // chance.shape[1] + torch.arange(num, device=device)[:, None] * beam).flatten()
        word = (flat % chance.shape[1]).flatten()
        tokens = torch.cat([tokens[came_from], word[:, None]], dim=1)
        lengths = lengths[came_from] + (~is_done[came_from]).float()
        is_done = is_done[came_from] | (word == END)
        if is_done.all():
            break
    final = score / ((5 + lengths.view(num, beam)) / 6) ** alpha
    best = final.argmax(dim=1) + torch.arange(num, device=device) * beam
    return [[token for token in row if token > END] for row in tokens[best, 1:].tolist()]
