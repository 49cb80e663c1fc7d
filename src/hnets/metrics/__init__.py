"""How good boundaries are: the Berkeley benchmark, with the numbers of its official programme.

| module | holds |
|---|---|
| `boundaries` | the protocol: counts of an image, and ODS, OIS and AP of many |
| `matching` | one-to-one matching of pixels at the least cost |
| `thinning` | lines of one pixel |
| `suppression` | non-maximum suppression |
| `maps` | soft maps in files |
| `benchmark` | the scores of a folder of maps, on all cores |

They need Numba and SciPy: ``pip install "hnets[bench]"``.
"""
