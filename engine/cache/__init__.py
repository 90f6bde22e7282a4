"""Caches that can be rewound: every kind that mlx-lm has."""
