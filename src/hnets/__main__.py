"""``python -m hnets``: the same as the ``hnets`` command."""

from hnets.cli import main

if __name__ == "__main__":
    main()
