"""`python -m app.host`."""

import sys

from app.host.main import main

sys.exit(main())
