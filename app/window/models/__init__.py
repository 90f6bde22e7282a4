"""The Models window: what this computer can run, which drafter goes with it, how much faster that is, and downloads.

Everything comes from child processes (`python -m app models ... --json`), so that the window never waits and loads
neither MLX nor huggingface_hub.
"""
