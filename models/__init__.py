"""From a name to a loaded model: folders, the GGUF importer, tokenizers, pairing."""
