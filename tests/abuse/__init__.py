"""Attacks on the package: see docs/survives.md."""
