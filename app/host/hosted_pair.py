"""The loaded pair of the host, with the request that it was loaded for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.inference import digests, loaded_pair
from app.inference.loaded_pair import NO_DRAFTER, LoadedPair, release_memory
from app.inference.memory_fit import fit
from app.inference.options import Options, target_name
from app.inference.pair_resolution import target_folder
from app.protocol import Loaded, Message, Pair, Speculation
from models.model_folder import check_folder


@dataclass
class HostedPair:
    """request: what the window asked for. pair: what is loaded for it; its drafter may be missing. digest: of the
    target's weights."""

    request: Pair
    pair: LoadedPair
    digest: str

    def fits_drafter(self, request: Pair) -> bool:
        """Whether the drafter of `request` is the one that is loaded. One that was refused is tried again."""
        same = (self.request.drafter, self.request.tree) == (request.drafter, request.tree)
        return same and not self.pair.refusal

    def load_drafter(self, request: Pair) -> None:
        """Loads the drafter of `request`; the old one goes first. One that is refused leaves none."""
        self.pair = self.pair.with_drafter(NO_DRAFTER)
        self.pair.session.forget()
        self.pair.target.model.record()
        release_memory()
        self.pair = self.pair.try_drafter(request.drafter, request.tree)

    def serve(self, request: Pair) -> None:
        """Makes `request`, whose target and drafter are loaded, the one that is served."""
        if request.context != self.request.context:
            self.pair.open_session(options_of(request))
        self.request = request

    def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        """Returns the ids of a prompt. Raises ModelError where the model's template refuses it."""
        return self.pair.prompt_ids(messages_of(messages))

    @property
    def speculation(self) -> Speculation:
        if self.pair.refusal:
            return "unsupported"
        return "on" if self.pair.has_drafter else "off"

    def answer(self, number: int) -> Loaded:
        """Returns what the window is told of this pair."""
        notes = (self.pair.refusal or self.pair.drafter.note, self.pair.note)
        return Loaded(
            id=number,
            pair=self.request,
            target=target_name(options_of(self.request)),
            drafter=self.pair.drafter.name,
            speculation=self.speculation,
            note="; ".join(note for note in notes if note),
            drafts_trees=self.pair.drafter.branches,
            context=self.pair.session.context,
        )


def open_target(request: Pair) -> HostedPair:
    """Loads the target of a pair, without its drafter yet. Raises UsageError or ModelError."""
    pair = loaded_pair.open_target(options_of(request))
    return HostedPair(request, pair, digests.of_model(pair.target.folder))


def check(request: Pair, hosted: HostedPair | None) -> None:
    """Checks a pair as far as possible without loading it. Raises UsageError or ModelError."""
    options = options_of(request)
    if hosted is not None and hosted.request.target == request.target:
        fit(hosted.pair.target.folder, options)
    else:
        fit(check_folder(target_folder(options)), options)


def messages_of(messages: Sequence[Message]) -> list[dict[str, str]]:
    """Returns messages as a session takes them."""
    return [{"role": message.role, "content": message.content} for message in messages]


def options_of(request: Pair) -> Options:
    """Returns the options that open a pair. Raises UsageError for nonsense."""
    return Options(target=request.target, drafters=(request.drafter,), tree=request.tree, context=request.context)
