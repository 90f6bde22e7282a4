"""A reply is verified: what was emitted is compared with plain decoding of its prompt in empty caches."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from msgspec import to_builtins

from app.inference import digests
from app.inference.loaded_pair import LoadedPair
from app.inference.options import check_settings
from app.protocol import CANCELLED, Failed, PrefillProgress, RoundTokens, Verify, VerifyDone, VerifyProgress
from engine.audit.exact_target import ExactTarget
from engine.audit.identical_width import blocks_of
from engine.audit.receipt import Difference, Receipt
from engine.audit.reply_check import EndConditions, check_reply
from engine.errors import ContextError, RedlineError, StoppedError, UsageError
from engine.events import PromptProgress, Round, is_tree
from engine.reply_channels import ReplyBudget
from engine.sampling import Sampler
from engine.settings import SamplingSettings
from models.architecture_references import reference_line

STOPPED = "stopped before all of the reply was checked"


class OtherPromptError(RedlineError):
    """The prompt of the reply is not what it would be now."""


class OtherModelError(RedlineError):
    """The weights are not those that wrote the reply."""


def verify(
    pair: LoadedPair, request: Verify, stopped: Callable[[], bool]
) -> Iterator[PrefillProgress | VerifyProgress | VerifyDone | Failed]:
    """Yields PrefillProgress* VerifyProgress* VerifyDone, or ends with Failed soon once `stopped` returns true.

    Raises UsageError for settings or ids that make no sense, OtherModelError, OtherPromptError, ContextError, and what
    the target raises.
    """
    rounds = [round_of(i, kept) for i, kept in enumerate(request.rounds)]
    tokens = [token for round_ in rounds for token in round_.tokens]
    settings = replace(pair.resolved(request.sampling), draft_length=0)
    if not tokens:
        raise UsageError("this reply has no tokens to check (none were stored, or it was empty): regenerate it")
    check_model(pair, request)
    pair.check_ids(tokens)
    check_settings(settings, trees=False)
    if settings.seed is None and not settings.greedy:
        raise UsageError("the seed of this reply was not kept, so it cannot be repeated: regenerate it")

    def pause() -> None:
        if stopped():
            raise StoppedError(STOPPED)

    try:
        prompt = pair.prompt_ids(to_builtins(request.messages), settings, stopped)
        check_prompt(pair, request, prompt, len(tokens))
        with closing(_check(pair, settings, prompt, rounds, request.complete, pause)) as steps:
            for step in steps:
                if isinstance(step, PromptProgress):
                    yield PrefillProgress(id=request.id, progress=step)
                elif isinstance(step, Receipt):
                    reference = reference_line(pair.target.folder.config)
                    yield VerifyDone(id=request.id, receipt=_with_texts(step, pair), reference=reference)
                    return
                else:
                    yield VerifyProgress(id=request.id, done=step, total=len(tokens))
                pause()
    except StoppedError:
        yield Failed(id=request.id, kind=CANCELLED, message=STOPPED)


def _check(
    pair: LoadedPair,
    settings: SamplingSettings,
    prompt: Sequence[int],
    rounds: Sequence[Round],
    complete: bool,
    pause: Callable[[], None],
) -> Generator[PromptProgress | int | Receipt]:
    """Yields what `engine.audit.reply_check.check_reply` does. In exact-verify the passes are those of plain decoding
    where the reply was made, which may be another machine."""
    pair.clear()
    target, tokenizer = pair.target.model, pair.target.tokenizer
    blocks = blocks_of(settings.identical_width, len(prompt))
    parser = tokenizer.channels(prompt)
    sampler = Sampler(settings, target.vocabulary, pair.session.reply_grammar(settings, parser))
    budget = ReplyBudget(settings.max_tokens, settings.max_thought_tokens, tokenizer.channels(prompt))
    tokens = [token for round_ in rounds for token in round_.tokens]
    for token in tokens:
        budget.push(token)
    longest = len(tokens) if budget.reached else pair.session.context - len(prompt)
    ends = EndConditions(tokenizer.stream, tokenizer.eos, settings.stop, complete, longest, parser)
    model = ExactTarget(target, blocks) if settings.exact else target
    receipt = yield from check_reply(model, sampler, prompt, rounds, ends, pause)
    yield replace(receipt, identical_width=blocks.together) if settings.exact else receipt


def check_model(pair: LoadedPair, request: Verify) -> None:
    """Raises OtherModelError if other weights wrote the reply, as far as is known: these would be blamed for it."""
    _, _, digest = request.prompt_digest.partition(".")
    if digest and digest != pair.digest:
        raise OtherModelError(
            f"the weights in {pair.target.name} are not the ones that wrote this reply: restore them, or "
            "regenerate the reply and verify the new one"
        )


def check_prompt(pair: LoadedPair, request: Verify, prompt: Sequence[int], reply_tokens: int) -> None:
    """Raises OtherPromptError if the reply was made with another prompt: it would fail whatever it says. Raises
    ContextError if prompt and reply do not fit into the context."""
    tokens, (digest, _, _) = len(prompt), request.prompt_digest.partition(".")
    known = request.prompt_tokens in (None, tokens) and digest in ("", digests.of_prompt(prompt))
    if not known:
        old, now = request.prompt_tokens, f"now has {tokens}"
        size = f"{now} tokens" if old in (None, tokens) else f"had {old} tokens and {now}"
        raise OtherPromptError(
            f"the prompt of this reply has changed (it {size}): the system prompt, a date in the model's chat template "
            "or the model itself is different; regenerate the reply and verify the new one"
        )
    if tokens + reply_tokens > pair.session.context:
        raise ContextError(
            f"prompt and reply have {tokens + reply_tokens} tokens, but the context holds only {pair.session.context}: "
            "load the model with the context that the reply was written in"
        )


def round_of(index: int, kept: RoundTokens) -> Round:
    """Returns a round as far as it is known. Raises UsageError for one that is inconsistent."""
    if kept.parents is None:
        accepted = max(0, len(kept.tokens) - 1)
        fits = not kept.path and accepted <= len(kept.drafted)
    else:
        accepted = len(kept.path)
        fits = is_tree(kept.parents, len(kept.drafted), kept.path) and len(kept.tokens) <= accepted + 1
    if not fits:
        raise UsageError(f"round {index} of this reply is inconsistent: its saved data is damaged")
    made = Round(index, kept.tokens, kept.drafted, accepted, (), (), 0, 0.0, parents=kept.parents, path=kept.path)
    return replace(made, fingerprints=kept.fingerprints)


def _with_texts(receipt: Receipt, pair: LoadedPair) -> Receipt:
    """Returns the receipt with the texts of the tokens in its differences."""

    def with_texts(one: Difference) -> Difference:
        tokens = (one.plain_token, one.other_token)
        plain, other = ("" if token is None else pair.target.tokenizer.piece(token) for token in tokens)
        return replace(one, plain_text=plain, other_text=other)

    return replace(receipt, differences=tuple(map(with_texts, receipt.differences)))
