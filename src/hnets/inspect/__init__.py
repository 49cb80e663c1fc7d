"""Look inside a network: phases as colours, and figures of filters and of feature maps.

Figures need matplotlib (``pip install "hnets[plot]"``); arrays of colours need only NumPy.
"""

from hnets.inspect.ablation import Curve, ablation_figure
from hnets.inspect.accuracy import AnsweredPicture, accuracy_figure
from hnets.inspect.digits import TurnedDigit, digits_figure
from hnets.inspect.edges import (
    edges_figure,
    edges_picture,
    orientation_colours,
    orientation_picture,
    orientation_wheel,
    overlay_picture,
)
from hnets.inspect.figures import FORMATS, save, style
from hnets.inspect.harmonics import circular_harmonic, harmonics_figure
from hnets.inspect.phase import colour_wheel, phase_colours
from hnets.inspect.turning import TurnedMap, turning_figure

__all__ = [
    "FORMATS",
    "AnsweredPicture",
    "Curve",
    "TurnedDigit",
    "TurnedMap",
    "ablation_figure",
    "accuracy_figure",
    "circular_harmonic",
    "colour_wheel",
    "digits_figure",
    "edges_figure",
    "edges_picture",
    "harmonics_figure",
    "orientation_colours",
    "orientation_picture",
    "orientation_wheel",
    "overlay_picture",
    "phase_colours",
    "save",
    "style",
    "turning_figure",
]
