"""The Models window: which models this computer can run, which drafters go with them, and downloads.

Everything comes from child processes (`python -m app models ... --json`), decoded into the records of
`app.protocol.model_documents`, so that the window never waits and loads neither MLX nor huggingface_hub.
"""
