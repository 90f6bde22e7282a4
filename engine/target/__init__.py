"""The target as the engine sees it: the model with its cache, and what drafters may read of it."""
