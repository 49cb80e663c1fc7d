"""Networks, one readable file a family."""

from hnets.models.mnist import HNetMNIST, hnet_mnist

__all__ = ["HNetMNIST", "hnet_mnist"]
