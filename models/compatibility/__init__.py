"""Whether a drafter fits a target, and which drafter fits best.

    pair_check      may this drafter draft for this target? Yes or no, and why
    best_drafter    the best of the drafters on this machine, which `--drafter auto` takes

What makes a kind of drafter fit is in its `check` (models/drafters); token maps are compared in `models.token_map`.
Nothing is loaded, but best_drafter and the checks of heads import MLX.
"""
