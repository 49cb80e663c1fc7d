"""How good predictions of pixels are: the Berkeley benchmark of edge maps, and segmentation.

| module | holds |
|---|---|
| `berkeley` | the protocol: counts per image, and ODS, OIS and AP over many |
| `benchmark` | the scores of a folder of edge maps, on all cores |
| `matching` | one-to-one matching of pixels at the least cost |
| `skeleton` | skeletons of binary maps |
| `suppression` | non-maximum suppression |
| `segmentation` | the area under the ROC curve, and F1 at a threshold |

Those of edges need Numba and SciPy: ``pip install "hnets[bench]"``.
"""
