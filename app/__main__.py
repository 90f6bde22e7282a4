"""`python -m app` is `redline`."""

import sys

from app.cli import main

sys.exit(main())
