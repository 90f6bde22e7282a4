"""The Qt window. Imports no MLX: the engine is in the host process."""
