"""Wrong edits of what is said to fit."""

from tests.mutants.mutant import Mutant

_FITS, _FOOTPRINT, _VERDICT = "app/fits.py", "models/memory/footprint.py", "models/memory/verdict.py"
_SIZES, _PAIR = "engine/cache_sizes.py", "models/memory/pair.py"
_ASKED = "tests/app/test_fits.py::"
_JUDGED = "tests/models/memory/test_verdict.py::"
_MEASURED = "tests/models/memory/test_sizes.py::"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "what does not fit is loaded all the same",
        _FITS,
        'if verdict.level == "refused":',
        'if verdict.level == "never":',
        (_ASKED + "test_nothing_is_loaded_of_what_does_not_fit",),
    ),
    Mutant(
        "a context that was asked for is cut in silence",
        _FITS,
        "context = wanted if asked.options.context else _longest(asked.taken, wanted, room)",
        "context = _longest(asked.taken, wanted, room)",
        (_ASKED + "test_a_context_that_was_asked_for_is_given_or_refused",),
    ),
    Mutant(
        "drafters weigh nothing",
        _PAIR,
        "shares = [one.share(context) for one in models]",
        "shares: list[Share] = []",
        (_MEASURED + "test_a_draft_model_brings_weights_cache_and_vocabulary",),
    ),
    Mutant(
        "loading beside what is there is forgotten",
        _FOOTPRINT,
        "beside = self.process + self.weights + self.drafter.loading",
        "beside = self.process + self.weights",
        (_JUDGED + "test_the_worst_moment_counts",),
    ),
    Mutant(
        "what the GPU may wire is ignored",
        "models/memory/room.py",
        "if self.wired is not None:",
        "if self.wired == 0:",
        (_JUDGED + "test_on_a_mac_what_the_gpu_may_wire_counts_and_not_the_memory",),
    ),
    Mutant(
        "the longest context is a step too long",
        _VERDICT,
        "    return fits * _STEP\n",
        "    return too_long * _STEP\n",
        (_JUDGED + "test_the_longest_context_that_fits",),
    ),
    Mutant(
        "a window grows like everything else",
        _SIZES,
        "if self.window is not None:",
        "if self.window == 0:",
        (_MEASURED + "test_a_cache_takes_what_its_growth_says",),
    ),
)
