"""Whether a model fits in memory, decided before anything is loaded.

memory_verdict   bytes by what holds them: good, tight or refused, with the number, and what would make it fit
model_size       the sizes of a model, from its files and the shapes of a network that is never evaluated

What a drafter takes is known by its kind; `models.drafters.pair_footprint` adds up a target and its drafters.
"""
