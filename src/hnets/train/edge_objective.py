"""What is taught of edges in photographs, and how far a network is from it.

The loss of a photograph is the cross-entropy of each of the network's outputs (five sides and their
fusion), averaged over pixels, with weights that make up for edges being rare; and for each output a
term that holds its mean to the share of edge pixels, the paper's sparsity regulariser. Labels may
be softened by the outputs of teachers.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from hnets.data import EdgeSet
from hnets.train.recipe import Edges

PHOTOS = 10
"""Photographs that are looked at at a time."""
REACH = 4
"""Pixels by which an edge may be off in `tolerant_error`: 0.0075 of a photograph's diagonal."""
LEVELS = 100
ON, UNSURE = 5, 2
LEAST = 0.05
"""Share of the people at least, for what lies between the pixels that they drew."""


def edge_labels(data: EdgeSet, rules: Edges) -> Tensor:
    """What is taught at each pixel, ``(n, planes, height, width)``, in one plane or two.

    The first is 0, `ON`, or `UNSURE` where nothing is taught. With ``rules.agreement``, a second
    one has the percentage of the people who drew the pixel.
    """
    people = data.people[:, None, None].float()
    if rules.labels == "people":
        taught = (data.votes >= rules.people).byte() * ON
    else:
        votes = data.near if rules.labels == "near" else data.votes
        agreed = votes >= rules.share * people - 1e-4
        taught = torch.where(agreed, ON, UNSURE).byte() * (data.votes > 0)
    if not rules.agreement:
        return taught[:, None]
    return torch.stack([taught, (100.0 * data.votes / people).round().byte()], 1)


def edge_loss(logits: Tensor, labels: Tensor, rules: Edges, soft: float = 0.0) -> Tensor:
    """The loss of each photograph, ``(n,)``, over all outputs ``(n, outputs, height, width)``.

    Labels may lie between those of `edge_labels`, where edges were resampled: one that was `ON` is
    half of that or more at its nearest pixels, and one that was `UNSURE` never is. With a weight
    ``soft``, their last plane has the probabilities of teachers, 0 to 255.
    """
    taught = labels[:, :1]
    truth = (taught > ON / 2 - 1e-3).float()
    counted = truth + (taught < UNSURE / 8).float()
    pixels = logits.shape[2] * logits.shape[3]
    total = counted.sum((2, 3), keepdim=True)
    part = truth.sum((2, 3), keepdim=True) / total  # edges, of the pixels that count
    on_edges = truth
    if rules.agreement:
        on_edges = truth * (labels[:, 1:2] / 100).clamp(LEAST, 1) ** rules.agreement
        total_share = on_edges.sum((2, 3), keepdim=True).clamp(min=1e-6)
        on_edges = on_edges * truth.sum((2, 3), keepdim=True) / total_share
    weight = on_edges * (1 - part) ** rules.balance + (counted - truth) * part**rules.balance
    target = truth
    if soft:
        target = (1 - soft) * truth + soft * (labels[:, -1:] / 255).clamp(0, 1)
        weight = weight + soft * (1 - counted) * part**rules.balance  # where only teachers know
    # −log p is softplus(−logit) on an edge and softplus(logit) off one.
    entropy = F.softplus(logits) - target * logits
    loss = (entropy * weight).sum((2, 3)) / pixels
    if rules.sparsity:
        mean = (logits.sigmoid() * counted).sum((2, 3), keepdim=True) / total
        mean = mean.clamp(1e-6, 1 - 1e-6)
        held = -part * mean.log() - (1 - part) * (1 - mean).log()
        loss = loss + rules.sparsity * held.sum((2, 3))
    return rules.sides * loss[:, :-1].sum(1) + loss[:, -1]


def tolerant_error(outputs: Tensor, truth: Tensor) -> float:
    """100·(1 − F) of outputs ``(n, 1, height, width)`` at the best of 100 thresholds.

    A quick relative of the benchmark's ODS, without suppression and matching: a detection is right
    if there is an edge within `REACH` pixels, and an edge is detected if there is a detection. It
    serves to follow a training; scores come from `hnets.metrics`.

    >>> line = torch.zeros(1, 1, 20, 20)
    >>> line[..., 10] = 1
    >>> tolerant_error(line.roll(3, dims=3), line), tolerant_error(line.roll(6, dims=3), line)
    (0.0, 100.0)
    """
    counts, near = torch.zeros(3, LEVELS, device=outputs.device, dtype=torch.float64), 2 * REACH + 1
    for output, edges in zip(outputs.split(PHOTOS), truth.split(PHOTOS), strict=True):
        detected = F.max_pool2d(output, near, 1, REACH)
        allowed = F.max_pool2d(edges, near, 1, REACH)
        counted = ((output, allowed), (output, torch.ones_like(edges)), (detected, edges))
        for row, (level, weight) in enumerate(counted):
            bins = (level * LEVELS).long().clamp(max=LEVELS - 1).flatten()
            counts[row] += torch.bincount(bins, weight.flatten().double(), minlength=LEVELS)
    # Of everything at a level or above; level 0 is everywhere and is left out.
    right, every, hit = counts.flip(1).cumsum(1).flip(1)[:, 1:]
    precision, recall = right / every.clamp(min=1), hit / truth.sum().clamp(min=1)
    f = 2 * precision * recall / (precision + recall).clamp(min=1e-9)
    return 100 * (1 - float(f.max()))
