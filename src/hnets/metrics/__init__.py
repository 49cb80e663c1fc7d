"""How good edge maps are: the Berkeley benchmark, with the numbers of its official program.

| module | holds |
|---|---|
| `berkeley` | the protocol: counts per image, and ODS, OIS and AP over many |
| `benchmark` | the scores of a folder of edge maps, on all cores |
| `matching` | one-to-one matching of pixels at the least cost |
| `skeleton` | skeletons of binary maps |
| `suppression` | non-maximum suppression |

They need Numba and SciPy: ``pip install "hnets[bench]"``.
"""
