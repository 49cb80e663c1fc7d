"""Pure functions on plain tensors: what the modules of `hnets.nn` compute.

A feature map is a real tensor ``(batch, channels, height, width)``; `hnets.Streams` says which
channel is what.
"""

from hnets.functional._batch_norm import fold_batch_norm
from hnets.functional.assembly import harmonic_kernel, hconv2d
from hnets.functional.fourier import (
    angular_norm,
    batch_fourier_relu,
    fourier_act,
    fourier_relu,
    synthesis,
)
from hnets.functional.grouped import grouped_conv2d, stream_conv2d
from hnets.functional.magnitudes import (
    MAGNITUDE_EPS,
    batch_magnitude_relu,
    dropout,
    gate,
    largest,
    magnitude,
    magnitude_act,
    magnitude_relu,
    modrelu,
)
from hnets.functional.pyramid import (
    blur_pool2d,
    crop,
    double2d,
    enlarge2d,
    gaussian_window,
    halve2d,
    halve_max2d,
    mean_pool2d,
    pad_mirrored,
    pad_to_halve,
    trim,
)
from hnets.functional.rotation import (
    centre_of_mass,
    mass_direction,
    pointing,
    reflect,
    reflect_pixels,
    rotate,
    rotate_pixels,
)

__all__ = [
    "MAGNITUDE_EPS",
    "angular_norm",
    "batch_fourier_relu",
    "batch_magnitude_relu",
    "blur_pool2d",
    "centre_of_mass",
    "crop",
    "double2d",
    "dropout",
    "enlarge2d",
    "fold_batch_norm",
    "fourier_act",
    "fourier_relu",
    "gate",
    "gaussian_window",
    "grouped_conv2d",
    "halve2d",
    "halve_max2d",
    "harmonic_kernel",
    "hconv2d",
    "largest",
    "magnitude",
    "magnitude_act",
    "magnitude_relu",
    "mass_direction",
    "mean_pool2d",
    "modrelu",
    "pad_mirrored",
    "pad_to_halve",
    "pointing",
    "reflect",
    "reflect_pixels",
    "rotate",
    "rotate_pixels",
    "stream_conv2d",
    "synthesis",
    "trim",
]
