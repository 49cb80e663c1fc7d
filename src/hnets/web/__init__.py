"""The page of ``hnets demo``: a small server that computes, and one page that shows.

The server has no state: every request brings its picture, and what it answers is made from that
picture and from networks that are fixed. It remembers what it found in the last few, so that a dial
can turn quickly, and writes nothing. Needs ``pip install "hnets[web]"``.
"""
