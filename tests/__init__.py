"""The tests, and programs that measure. Importing `engine` first readies the backend before anything imports MLX, which
would else compute with the slow products of its own wheel on Linux."""

import engine  # noqa: F401
