"""Draft trees: their shape, masks and positions."""
