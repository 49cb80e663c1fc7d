"""The page of ``hnets demo``: a small server that computes, and one page that shows.

The server keeps nothing: every request brings its picture, and what it answers is made from that
picture and from networks that are fixed. Needs ``pip install "hnets[web]"``.
"""
