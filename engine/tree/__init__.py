"""Draft trees: what every kind of them has in common. Which nodes a tree has is decided by its drafter.

draft_tree         the shape: parents, depths, what each node sees
sibling_rejection  rejection sampling among children that were drawn without replacement
rotary_positions   has a model's rotary modules take one position for each row

The rows of a verify pass over a tree are laid out in `engine.cache.tree_cache`; `engine.acceptance` walks down a tree.
"""
