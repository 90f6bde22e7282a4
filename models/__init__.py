"""From a name to a loaded model: catalogue, downloads, folders, conversion, drafters, memory, training, prediction."""
