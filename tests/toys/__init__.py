"""Toy models: tiny, random and quick, for tests that care about mechanism and not about language."""
