"""`redline serve` with a worker of the tests' own, which hangs in its first reply unless the command was restarted."""

import sys
from unittest import mock

from app.api import engine_client
from app.cli import serve
from app.cli.main import main
from app.protocol.watchdog import WatchdogLimits
from tests.app.api.gated_engine import GatedWorker


def run() -> int:
    worker = GatedWorker()
    if "--listener" not in sys.argv:
        worker.steps = 2  # the load, and one round
    limits = WatchdogLimits() if "--listener" in sys.argv else WatchdogLimits(silent_s=1.0)
    with (
        mock.patch.object(serve, "open_model_worker", lambda _: worker),
        mock.patch.object(engine_client, "WatchdogLimits", lambda: limits),
    ):
        return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(run())
