"""GGUF, the format of llama.cpp: read with suspicion, and put into the words of mlx-lm and transformers.

reading      header, metadata and tensor table, every number checked against the file   (cursor, types)
families     llama, qwen2, qwen3 and gemma3: which tensor becomes which, and config.json       (rope)
tensors      how each tensor is stored in MLX, piece by piece                         (blocks, affine)
tokenizer    tokenizer.json and the special tokens                         (byte_level, sentencepiece)
"""

from models.gguf.gguf_reader import GgufFile, TensorInfo, paths_of, read_gguf

__all__ = ["GgufFile", "TensorInfo", "paths_of", "read_gguf"]
