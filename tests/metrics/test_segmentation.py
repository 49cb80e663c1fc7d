"""AUC and F1 against their definitions."""

import pytest
import torch
from sklearn.metrics import f1_score, roc_auc_score

from hnets.metrics.segmentation import segmentation_scores


def test_scores_are_those_of_scikit_learn_with_and_without_ties() -> None:
    truth = torch.rand(3, 40, 50) < 0.2
    for outputs in (torch.rand(3, 40, 50), (5 * torch.rand(3, 40, 50)).round() / 5):
        outputs = (outputs + 0.4 * truth) / 1.4
        scores = segmentation_scores(outputs, truth, threshold=0.5)
        flat = truth.flatten().numpy()
        assert scores.auc == pytest.approx(roc_auc_score(flat, outputs.flatten().numpy()), abs=1e-7)
        assert scores.f1 == pytest.approx(f1_score(flat, outputs.flatten().numpy() >= 0.5))


def test_the_best_threshold_is_the_best_of_all() -> None:
    truth = torch.rand(500) < 0.3
    outputs = torch.randn(500) + 1.5 * truth
    best = segmentation_scores(outputs, truth)
    others = [segmentation_scores(outputs, truth, float(level)).f1 for level in outputs]
    assert best.f1 == max(others)
    assert segmentation_scores(outputs, truth, best.threshold) == best


def test_nothing_at_the_threshold() -> None:
    scores = segmentation_scores(torch.tensor([0.1, 0.2]), torch.tensor([0, 1]), 0.9)
    assert (scores.auc, scores.f1) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("truth", "message"),
    [([0, 0], "no pixel is positive"), ([1, 1], "every pixel is"), ([1], r"one shape, got \(2,\)")],
)
def test_what_cannot_be_scored(truth: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        segmentation_scores(torch.tensor([0.5, 0.6]), torch.tensor(truth))
