"""Everything Redline raises on purpose, as one tree.

    RedlineError                 one line for the user: what, why, what to do
    ├── UsageError               a setting or argument is nonsense                     (exit code 2)
    ├── ModelError               a model folder or file is missing, damaged or unsupported
    │   └── UnsupportedCache     the model keeps a state that cannot be rewound exactly
    ├── PairError                the drafter does not fit the target
    ├── ContextError             the prompt does not fit the context
    ├── SupersededError          a reply was continued after another had begun on the same target
    ├── StoppedError         the user stopped what had nothing to show yet
    ├── FitError                 a drafter cannot be trained here: disk, memory, or a workspace of another fit
    ├── HubError                 a model cannot be downloaded: connection, permission, damage, or the disk
    └── BackendError             this machine lacks something that MLX needs
        └── MachineLostError     a machine that computes a part of a model is gone: only another process can go on

The message is the whole story for a user, so it is a single line. Anything else that
escapes is a bug and keeps its traceback.
"""


class RedlineError(Exception):
    """Base of all; catch it once, at the process boundary."""


class UsageError(RedlineError):
    """A setting or an argument is nonsense."""


class ModelError(RedlineError):
    """A model folder or file is missing, damaged or unsupported."""


class UnsupportedCache(ModelError):
    """The model keeps a state that cannot be rewound exactly."""


class PairError(RedlineError):
    """The drafter does not fit the target."""


class ContextError(RedlineError):
    """The prompt does not fit the context."""


class SupersededError(RedlineError):
    """A reply was continued after another had begun on the same target."""


class StoppedError(RedlineError):
    """The user stopped work that had nothing to show yet."""


class FitError(RedlineError):
    """A drafter cannot be trained here."""


class HubError(RedlineError):
    """A model cannot be downloaded from the hub. reason: one word for programs, as `models.hub.failures` lists them."""

    def __init__(self, message: str, reason: str = "hub") -> None:
        super().__init__(message)
        self.reason = reason


class BackendError(RedlineError):
    """This machine lacks something that MLX needs."""


class MachineLostError(BackendError):
    """A machine that computes a part of a model is gone. MLX joins a process once: only another one can go on."""

    def __init__(self, reason: str = "a machine that computes a part of this model is gone: start Redline again"):
        super().__init__(reason)
