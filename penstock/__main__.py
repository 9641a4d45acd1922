"""`python -m penstock`, where nothing is installed."""

import sys

from penstock.cli import main

if __name__ == "__main__":
    sys.exit(main())
