"""`python -m app` is `redline`."""

import sys

from app.cli.main import main

sys.exit(main())
