"""Why a drafter is refused for a target, decided from their folders alone: headers and JSON, no weights.

draft model         almost no tokens in common with the target; one with another tokenizer is told apart from one with
                    the target's tokens, but not refused (models/drafters/draft_model.py, models/token_map.py)
heads and blocks    a different hidden size or vocabulary, layers that the target does not have, another target named in
                    their config.json (models/drafters, target_match.py)
Gemma 4 assistant   a target that is not a Gemma 4 (models/drafters/gemma4_assistant.py)
any                 a kind or an architecture that Redline cannot run, damage, weights that are pickles
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from engine.errors import PairError, RedlineError
from models.drafters import kind_of
from models.drafters.drafter_kind import Compatibility
from models.model_folder import ModelFolder, check_folder


def check_compatibility(
    target: ModelFolder, drafter: Path, read: Callable[[Path], ModelFolder] = check_folder
) -> Compatibility:
    """Returns whether the drafter in the folder `drafter` fits `target`. Never raises for what is wrong with it.

    read: `check_folder`, or a version that remembers: a large tokenizer takes a quarter of a second.
    """
    from models.loader import not_loading  # which loads MLX, as comparing a head does

    name = ""
    try:
        kind = kind_of(drafter, target.path)
        name = kind.name
        with not_loading(drafter):
            return replace(kind.files.check(target, drafter, read), kind=name)
    except RedlineError as error:
        return Compatibility(False, _reason(error, drafter), kind=name)


def _reason(error: RedlineError, path: Path) -> str:
    """Returns the message of an error about `path` without the path and the advice to choose another drafter."""
    message = " ".join(str(error).split()).removeprefix(f"{path}: ")
    return message.rpartition("; choose ")[0] or message if isinstance(error, PairError) else message
