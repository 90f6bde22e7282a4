"""Other people's models as MLX folders: GGUF files, Hugging Face folders, and MLX folders taken as they are.

importing    what lies at a path, and the folder that becomes of it
making       a folder appears whole or not at all
hugging      from a Hugging Face folder, by mlx-lm
resuming     weights written by a process that may be killed
progress     how far it is
"""
