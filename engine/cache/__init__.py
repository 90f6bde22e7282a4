"""Caches that can be rewound: every kind that mlx-lm has.

model_cache     all layers of a model as one thing of so many tokens; what each kind of cache can forget
sliding_window  a window that can be rewound past its edge
tree_cache      mask and positions of a verify pass over a tree, and which of its rows stay
snapshot        what a cache holds, put aside and restored
"""
