"""The page of ``hnets demo``: a small server that computes, and one page that shows the results.

The server is stateless: every request brings its own image, and the networks are fixed. It caches
what it computed from the last few images, so that a dial can be dragged smoothly, and writes
nothing to disk. Needs ``pip install "hnets[web]"``.
"""
