"""The rows of the paper's tables: what was published, and the recipe that trains it here."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TABLE1", "Row"]


@dataclass(frozen=True)
class Row:
    """One method of a table."""

    method: str
    published: float
    """Percent wrong, on the original data."""
    recipe: str = ""
    """The shipped recipe; empty where nobody can run the method again."""


TABLE1 = (
    Row("SVM, RBF kernel", 11.11, "rotmnist-r-svm"),
    Row("Transformation RBM", 4.2),
    Row("Conv-RBM", 3.98),
    Row("CNN (Z2CNN)", 5.03, "rotmnist-r-z2cnn"),
    Row("CNN + rotation augmentation", 3.50, "rotmnist-r-z2cnn-augmented"),
    Row("P4CNN, rotation pooling", 3.21, "rotmnist-r-p4cnn-pooling"),
    Row("P4CNN", 2.28, "rotmnist-r-p4cnn"),
    Row("H-Net", 1.69, "rotmnist-r-hnet"),
)
"""Rotated MNIST, as the paper has it; the published numbers are on the original data."""
