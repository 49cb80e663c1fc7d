"""Look inside a network: phases as colours, and figures of filters and of feature maps.

Figures need matplotlib (``pip install "hnets[plot]"``); arrays of colours need only NumPy.
"""

from hnets.inspect.figures import FORMATS, save, style
from hnets.inspect.harmonics import circular_harmonic, harmonics_figure
from hnets.inspect.phase import colour_wheel, phase_colours
from hnets.inspect.turning import TurnedMap, turning_figure

__all__ = [
    "FORMATS",
    "TurnedMap",
    "circular_harmonic",
    "colour_wheel",
    "harmonics_figure",
    "phase_colours",
    "save",
    "style",
    "turning_figure",
]
