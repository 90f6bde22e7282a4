"""The Models window: which models this computer can run, which drafters go with them, and downloads.

What is on this computer comes from child processes (`python -m app models ... --json`), decoded into the records of
`app.protocol.model_documents`, so that the window never waits and loads neither MLX nor huggingface_hub.

models_window     the whole, and what each button does
model_library     the child processes, and their answers in known_models
known_models      which models are listed, under which heading, in which order; interrupted downloads among them
model_list        how a row is drawn
model_details     the details of one model, with memory_view, drafter_list and download_view
downloads         the queue of downloads, and the state of each
"""
