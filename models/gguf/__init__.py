"""GGUF, the format of llama.cpp: read with suspicion, and put into the words of mlx-lm and transformers.

gguf_reader      header, metadata and tensor table, every number checked against the file
families         llama, qwen2, qwen3 and gemma3: which tensor becomes which, and config.json
tensor_storage   how each tensor is stored in MLX, piece by piece
affine_groups    quantized blocks, repacked or made anew
gguf_tokenizer   tokenizer.json and the special tokens
"""
