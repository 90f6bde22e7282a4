"""Makes MLX model folders from GGUF files and Hugging Face folders; MLX folders are linked, not copied.

model_import       finds out what is at a path, and imports it
gguf_import        a GGUF file becomes an MLX folder
folder_conversion  a Hugging Face folder becomes an MLX folder, by mlx-lm's own conversion
atomic_folder      the new folder appears whole or not at all
"""
