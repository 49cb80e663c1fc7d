"""The rows of the paper's tables: what was published, and the recipe that trains it here."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BEYOND", "TABLE1", "TABLE2", "EdgeRow", "Row"]


@dataclass(frozen=True)
class Row:
    """One method of a table."""

    method: str
    published: float | None
    """Percent wrong, on the original data; None for what was not published."""
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


BEYOND = (
    Row("H-Net, the paper's", 1.69, "rotmnist-r-hnet"),
    Row("C-ReLU, wide (Franzen and Wand 2021)", 0.98),
    Row("functions of the angle (Franzen and Wand 2021)", 0.685),
    Row("E(2)-steerable network (Weiler and Cesa 2019)", 0.682),
    Row("separable Sim(2) network (Knigge et al. 2022)", 0.59),
    Row("hnet_fourier_tiny", None, "rotmnist-r-fourier-tiny"),
    Row("hnet_fourier_base", None, "rotmnist-r-fourier-base"),
    Row("hnet_fourier_base, augmented", None, "rotmnist-r-fourier-base-augmented"),
    Row("hnet_fourier_base, augmented, pointing", None, "rotmnist-r-fourier-base-pointing"),
)
"""Rotated MNIST past the paper: what others have published since, and the networks here."""


@dataclass(frozen=True)
class EdgeRow:
    """One method of the table of boundaries."""

    method: str
    ods: float
    ois: float
    """As published."""
    parameters: str = ""
    recipe: str = ""
    """The shipped recipe; empty where the published scores stand alone."""


TABLE2 = (
    EdgeRow("HED half width", 0.640, 0.650, "2,346k", "bsds500-hed"),
    EdgeRow("HED low", 0.697, 0.709, "115k", "bsds500-hed-low"),
    EdgeRow("Kivinen et al.", 0.702, 0.715),
    EdgeRow("H-DSN", 0.726, 0.742, "116k", "bsds500-hdsn"),
    EdgeRow("CSCNN †", 0.741, 0.759),
    EdgeRow("DeepEdge †", 0.753, 0.772),
    EdgeRow("N4-Fields †", 0.753, 0.769),
    EdgeRow("DeepContour †", 0.756, 0.773),
    EdgeRow("HED †", 0.782, 0.804, "2,346k"),
    EdgeRow("DCNN + sPb †", 0.813, 0.831),
)
"""BSDS500, as the paper has it; † pretrained on ImageNet."""
