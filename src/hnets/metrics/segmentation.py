"""How well pixels are told apart: the area under the ROC curve, and F1 at a threshold."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class SegmentationScores:
    """Scores of all pixels together, as fractions."""

    auc: float
    """Area under the ROC curve: how often a pixel of what is looked for scores above another."""
    f1: float
    """Dice: twice the pixels that are right, over those predicted and those drawn."""
    threshold: float
    """Predictions from this value up count as positive in `f1`."""


def segmentation_scores(
    outputs: Tensor, truth: Tensor, threshold: float | None = None
) -> SegmentationScores:
    """The scores of outputs, the higher the surer, given which pixels they should mark.

    Give the pixels inside the field of view only. Without a threshold, F1 is taken at the best one,
    which is for validation: a test set takes the threshold that validation chose.

    >>> outputs, truth = torch.tensor([0.9, 0.8, 0.4, 0.3]), torch.tensor([1, 0, 1, 0])
    >>> segmentation_scores(outputs, truth, threshold=0.5)
    SegmentationScores(auc=0.75, f1=0.5, threshold=0.5)
    >>> segmentation_scores(outputs, truth)
    SegmentationScores(auc=0.75, f1=0.8, threshold=0.4000000059604645)

    Args:
        outputs: of any shape.
        truth: of the same shape; what is not 0 is positive.
        threshold: of F1.
    """
    if outputs.shape != truth.shape:
        raise ValueError(
            "segmentation_scores takes outputs and truth of one shape, got "
            f"{tuple(outputs.shape)} and {tuple(truth.shape)}"
        )
    values, order = outputs.flatten().sort(descending=True)
    positive = (truth.flatten() != 0)[order]
    # Counts after the last of each run of equal outputs: no threshold separates those.
    last = torch.ones_like(positive)
    last[:-1] = values[:-1] != values[1:]
    right = positive.cumsum(0)[last]
    wrong = (~positive).cumsum(0)[last]
    positives, negatives = int(right[-1]), int(wrong[-1])
    if not positives or not negatives:
        missing = "no pixel is" if not positives else "every pixel is"
        raise ValueError(f"the AUC needs pixels of both kinds, and {missing} positive")
    # The area of trapezia, in whole numbers of pairs of pixels; ties count one half.
    steps = torch.diff(wrong, prepend=wrong.new_zeros(1))
    before = torch.cat([right.new_zeros(1), right[:-1]])
    auc = int((steps * (right + before)).sum()) / (2 * positives * negatives)
    f1 = 2 * right.double() / (right + wrong + positives)
    values = values[last]
    if threshold is None:
        best = int(f1.argmax())
        return SegmentationScores(auc, float(f1[best]), float(values[best]))
    count = int((values >= threshold).sum())  # of the levels that are positive
    return SegmentationScores(auc, float(f1[count - 1]) if count else 0.0, threshold)
