"""Trained values that come with the package: ``<name>.safetensors``, each with a ``<name>.json``.

The card says what the values are: the model and its options, the recipe, data and commit they were
trained with, what they reach, and the SHA-256 of the file.
"""

from hnets.weights.store import available, describe, load_into, pack

__all__ = ["available", "describe", "load_into", "pack"]
