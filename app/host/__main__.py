"""`python -m app.host`."""

import sys

from app.host.process import main

sys.exit(main())
