"""`python -m embodied_launch` is the console program, for where its script is not on the path."""

import sys

from .cli import main

sys.exit(main())
