"""The worker with a real model: loads one pair at a time and replies with it, to several requests at once."""

import contextlib
import secrets
import sqlite3
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event as StopFlag

from msgspec import to_builtins

from app import protocol
from app.host.reply_seats import ReplySeats, Seat
from app.host.reply_tools import ReplyTools, check_turns
from app.inference import cluster, digests, kept_conversation_files, loaded_pair, reply_events
from app.inference.host_file import read_hosts
from app.inference.loaded_pair import NO_DRAFTER, LoadedPair
from app.inference.memory_check import check_memory
from app.inference.options import Options, check_settings, target_name
from app.inference.pair_resolution import target_folder
from app.inference.reply_runner import ReplyInput, ReplyRunner
from app.inference.verification import OtherModelError, verify
from app.race.race_runs import RaceOptions, RaceRuns, level
from engine.errors import BackendError, MachineLostError, RedlineError, StoppedError, UsageError
from engine.events import Finished, PromptProgress, Round
from engine.kept_conversations import MOST
from engine.settings import SamplingSettings
from engine.together import between_pieces
from models.drafters.drafter_kind import join_notes
from models.model_folder import check_folder

WRITE_AFTER_S = 10.0  # without a request, before what is remembered of conversations is written
WORTH_A_FILE = 512  # tokens
MOST_NOTED = 2 * MOST  # files whose tokens are known: more than the conversations that a session keeps
CHECK_S = 0.5  # between two looks at the other machines, without a request


class NotLoaded(RedlineError):
    """There is no model to answer with."""


class ModelWorker:
    """A worker with a real model. Used from one thread, by one request at a time, or by several replies that
    `engine.together` has go on in turns; answers may raise anything.

    pair: the pair that is loaded, as it was requested; None before that. at_once: how many replies take part in rounds
    now, as policies ask. Invariant: a pair that is loaded can reply. A
    Load that can be refused by looking at files leaves what was there; one that fails later leaves nothing, because two
    targets may not fit into memory.
    """

    def __init__(self, cache_root: Path | None = None) -> None:
        """cache_root: as in `Options`."""
        self._cache_root = cache_root
        self.pair: protocol.Pair | None = None
        self.at_once: Callable[[], int] = lambda: 1
        self._loaded: LoadedPair | None = None
        self._seats: ReplySeats | None = None  # of that pair
        self._last_tokens: dict[Path, tuple[int, ...]] = {}  # of the conversation of each file, after its last reply
        self._unwritten: dict[Path, tuple[int, ...]] = {}  # those of them that are not in their files yet
        self._next: Path | None = None  # the file of the conversation that is likely to be continued next

    def load(self, request: protocol.Load) -> Iterator[protocol.AnyAnswer]:
        """Loads what differs from the pair that is loaded. Yields Loading* (Loaded | Failed), the latter where other
        machines cannot be reached. Raises RedlineError."""
        wanted, old = request.pair, self.pair
        alone = Options(
            target=wanted.target,
            drafters=(wanted.drafter,),
            tree=wanted.tree,
            context=wanted.context,
            cache_root=self._cache_root,
        )
        try:
            hosts = read_hosts(Path(wanted.hosts) if wanted.hosts else None)
            if hosts:
                names = ", ".join(host.ssh for host in hosts[1:])
                yield protocol.Loading(id=request.id, message=f"joining {names}")
                cluster.connect(hosts)
        except MachineLostError:
            raise
        except (BackendError, UsageError) as error:
            yield _unreachable(request, alone, error, self.pair)
            return
        options = replace(alone, hosts=hosts)
        yield protocol.Loading(id=request.id, message=f"looking at {_short_name(wanted.target)}")
        self._seats = None  # which refer to the old pair
        if old is None or (old.target, old.hosts) != (wanted.target, wanted.hosts):
            check_memory(check_folder(target_folder(options)), options)
            yield protocol.Loading(id=request.id, message=f"loading {_short_name(wanted.target)}")
            old = self._open_target(wanted, options)
        else:
            check_memory(self._pair.target.folder, options)
        if self._pair.refusal or (old.drafter, old.tree) != (wanted.drafter, wanted.tree):
            if wanted.drafter != "none":
                name = "" if wanted.drafter == "auto" else f" {_short_name(wanted.drafter)}"
                yield protocol.Loading(id=request.id, message=f"loading the drafter{name}")
            self._open_drafter(wanted)
        if old.context != wanted.context:
            self._pair.open_session(options)
        self.pair = wanted
        yield self._description(request.id, options, wanted)

    def reply(self, request: protocol.Reply, stop: StopFlag) -> Iterator[protocol.AnyAnswer]:
        """Yields Waiting* PrefillProgress* (RoundDone Called?)* ReplyDone, with FellBack anywhere. Ends soon once
        `stop` is set. Raises UsageError for invalid settings or ids, OtherModelError, and what the target raises."""
        pair = self._pair_of(request.target)
        settings = pair.resolved(with_seed(request.sampling))
        offered = request.tools
        tools = None if offered is None else ReplyTools(pair.target.tokenizer, offered, settings.grammar)
        if tools is not None and tools.grammar is not None:
            settings = replace(settings, grammar=tools.grammar)
        check_settings(settings, pair.trees)
        runner = self._runner(request, settings, tools, stop)
        with contextlib.suppress(StoppedError):  # then its events end at once
            runner.make_prompt()
        longest = len(runner.prompt) + settings.max_tokens + (settings.max_thought_tokens or 0)
        context = min(pair.session.context, longest)
        seats, told = self._open_seats(), ""
        try:
            while (why := seats.why_wait(runner, runner.prompt, context)) and not stop.is_set():
                if why != told:
                    yield protocol.Waiting(id=request.id, reason=why)
                told = why
                between_pieces()
        finally:
            seats.leave(runner)
        if why:
            ended = Finished("cancelled", 0, 0.0)
            yield protocol.ReplyDone(id=request.id, finished=ended, seed=settings.seed or 0, sampling=settings)
            return
        with seats.taken(runner.prompt, context) as seat:
            runner.pair, runner.settings = seat.pair, seat.pair.with_identical_width(settings)
            yield from self._answers(request, runner, tools, seat, stop)

    def _runner(
        self, request: protocol.Reply, settings: SamplingSettings, tools: ReplyTools | None, stop: StopFlag
    ) -> ReplyRunner:
        """Returns what runs a reply, with the first of the pairs."""
        pair = self._pair
        begun = request.continuation_ids or tuple(pair.target.tokenizer.pieces(request.opening))
        pair.check_ids(begun)
        check_turns(pair.target.tokenizer, request.messages)
        messages = to_builtins(request.messages) if request.prompt is None else request.prompt
        described = tools.described if tools is not None else ()
        given = ReplyInput(messages, begun, request.timed, request.prediction, described)
        return ReplyRunner(pair, settings, given, stop.is_set)

    def _answers(
        self,
        request: protocol.Reply,
        runner: ReplyRunner,
        tools: ReplyTools | None,
        seat: Seat,
        stop: StopFlag,
    ) -> Iterator[protocol.AnyAnswer]:
        """Writes a reply in its seat."""
        pair, settings, number = seat.pair, runner.settings, request.id
        pair.draft_from(Path(request.history) if request.history else None, settings)
        cache = Path(request.cache) if request.cache and not pair.is_shared else None
        with contextlib.suppress(StoppedError):  # the reply ends at once then
            self._open_cache(pair, cache, partial(_check, stop))
        for event in runner.events() if tools is None else tools.events(runner.events()):
            match event:
                case tuple():
                    yield protocol.Called(id=number, calls=event)
                case reply_events.FellBack():
                    yield protocol.FellBack(id=number, reason=event.reason)
                case PromptProgress():
                    if event.done >= event.total - 1:
                        seat.end_reading()
                    yield protocol.PrefillProgress(id=number, progress=event)
                case Round():
                    texts = tuple(map(pair.target.tokenizer.piece, event.drafted))
                    yield protocol.RoundDone(id=number, round=event, drafted_texts=texts)
                case Finished():
                    self._note_conversation(cache, tuple(pair.session.tokens))
                    yield protocol.ReplyDone(
                        id=number,
                        finished=event,
                        seed=settings.seed or 0,
                        prompt_digest=f"{digests.of_prompt(runner.prompt)}.{pair.digest}",
                        sampling=settings,
                        plain_s=runner.plain_s,
                        predicted=runner.predicted,
                        unused_prediction=runner.unused_prediction,
                    )

    def _note_conversation(self, cache: Path | None, tokens: tuple[int, ...]) -> None:
        """Notes what the models remember of the conversation that a file is for, if there is one."""
        if cache is None:
            return
        self._note_tokens(cache, tokens)
        if len(tokens) >= WORTH_A_FILE:
            self._unwritten[cache] = tokens

    def _open_seats(self) -> ReplySeats:
        """Returns the seats of the loaded pair."""
        if self._seats is None or self._seats.first is not self._pair:
            self._pair.at_once = self.at_once
            self._seats = ReplySeats(self._pair)
        return self._seats

    def verify(self, request: protocol.Verify, stop: StopFlag) -> Iterator[protocol.AnyAnswer]:
        """Yields PrefillProgress* VerifyProgress* VerifyDone, or ends with Failed soon once `stop` is set."""
        yield from verify(self._pair, request, stop.is_set)

    def race(self, request: protocol.Race, stop: StopFlag) -> Iterator[protocol.AnyAnswer]:
        """Yields what `app.protocol.race_messages` describes; ends soon once `stop` is set. Raises UsageError for
        invalid settings or sides, and what target and drafters raise."""
        pair = self._pair
        pair.draft_from(None, request.sampling)  # a race has the same rounds each time
        sampling = pair.resolved(with_seed(request.sampling))
        # A thought shares the tokens of the answer, and each side has a draft length of its own.
        sampling = replace(sampling, fresh=False, max_thought_tokens=None, draft_length=None)
        sides, turns = level(request.sides), (request.order_seed, request.pause_s)
        options = RaceOptions(request.id, request.prompt, Options(sampling=sampling), sides, request.runs, *turns)
        loaded = {(self.pair.drafter, self.pair.tree): pair} if self.pair is not None and pair.has_drafter else {}
        runs, complete = RaceRuns(pair, options, stop.is_set, loaded), False
        try:
            with pair.without_conversations():
                yield from runs.answers()
            complete = True
        finally:
            del runs, loaded
            pair.target.model.forget_all_taps()  # those of the other side's drafter
            if complete:
                pair.clear()
                loaded_pair.release_memory()
            else:
                pair.reset()

    def count(self, request: protocol.Count, stop: StopFlag) -> Iterator[protocol.AnyAnswer]:
        """Yields Counted. Raises StoppedError soon once `stop` is set."""
        pair = self._pair_of(request.target)
        tools = ReplyTools(pair.target.tokenizer, request.tools).described if request.tools is not None else ()
        tokens = len(pair.prompt_ids(to_builtins(request.messages), request.sampling, stop.is_set, tools))
        if request.cache and not pair.is_shared:
            self._next = Path(request.cache)
        yield protocol.Counted(id=request.id, tokens=tokens, context=pair.session.context)

    def unload(self, request: protocol.Unload) -> Iterator[protocol.AnyAnswer]:
        """Yields Unloaded."""
        self._unload()
        yield protocol.Unloaded(id=request.id)

    def prepare(self, wait: Callable[[float], bool]) -> None:
        """Reads ahead what is remembered of the conversation that was counted last, and writes what is remembered of
        conversations once nobody has asked anything for WRITE_AFTER_S. Ends when a request comes: wait(seconds) returns
        whether one has. May raise anything, MachineLostError once a machine is gone that shares the target."""

        def pause() -> None:
            if wait(0):
                raise StoppedError("interrupted by a new request")

        if self._loaded is not None:
            with contextlib.suppress(StoppedError):
                self._read_ahead(self._loaded, pause)
                if self._unwritten and not wait(WRITE_AFTER_S):
                    self._write_caches(self._loaded, pause)
                while self._loaded.is_shared and not wait(CHECK_S):
                    cluster.check()

    def _write_caches(self, pair: LoadedPair, pause: Callable[[], None]) -> None:
        """Writes the conversations whose replies have ended since the last time. A disk that refuses costs only time
        at the next start."""
        for path, tokens in list(self._unwritten.items()):
            kept = self._open_seats().conversation(tokens)
            if kept is not None and kept.blocks is None:
                with contextlib.suppress(OSError, sqlite3.Error, TypeError):
                    written = kept_conversation_files.save(path, pair, kept, pause)
                    print(f"{written:,} bytes written to remember {len(tokens):,} tokens", file=sys.stderr)  # the log
            del self._unwritten[path]

    def _read_ahead(self, pair: LoadedPair, pause: Callable[[], None]) -> None:
        """Reads the file of the conversation that is likely to be continued next, unless another would have to be
        dropped for it. pause: may raise to break off."""
        if (path := self._next) is not None:
            pair.keep_conversations()
            with contextlib.suppress(OSError):  # there is no such file any more
                if pair.session.kept.has_room(path.stat().st_size):
                    self._open_cache(pair, path, pause)
            self._next = None

    def _open_cache(self, pair: LoadedPair, path: Path | None, pause: Callable[[], None] = lambda: None) -> None:
        """Has the session know what a file remembers of a conversation, unless it still knows it from the last reply
        or from reading it ahead. pause: called between arrays; may raise to break off."""
        if path is None:
            return
        tokens = self._last_tokens.get(path)
        if tokens is not None and self._open_seats().conversation(tokens) is not None:
            return
        kept = kept_conversation_files.load(path, pair, pause)
        if kept is not None and pair.session.kept.add(kept):
            self._note_tokens(path, kept.tokens)

    def _note_tokens(self, path: Path, tokens: tuple[int, ...]) -> None:
        """Notes up to where the conversation that a file is for goes; those noted longest ago are forgotten."""
        self._last_tokens.pop(path, None)
        self._last_tokens[path] = tokens
        for old in list(self._last_tokens)[:-MOST_NOTED]:
            del self._last_tokens[old]

    def give_back_memory(self) -> None:
        """Gives back what is not in use; what it was for takes longer the next time."""
        if self._loaded is not None:
            self._loaded.give_back_memory()

    def recover(self) -> None:
        """Makes the state known again after something unexpected was raised; what this raises ends the process."""
        if self._loaded is not None:
            self._open_seats().reset()

    @property
    def _pair(self) -> LoadedPair:
        """The loaded pair. Raises NotLoaded."""
        if self._loaded is None:
            raise NotLoaded("no model is loaded: load one first")
        return self._loaded

    def _pair_of(self, target: str) -> LoadedPair:
        """The loaded pair, for a request for this target. Raises NotLoaded, and OtherModelError for another target."""
        pair = self._pair
        if target and self.pair is not None and self.pair.target != target:
            raise OtherModelError("another model has been loaded since the request was made: try again")
        return pair

    def _open_target(self, wanted: protocol.Pair, options: Options) -> protocol.Pair:
        """Loads the target in place of the old one; returns the pair that is loaded then. Raises RedlineError that says
        so if the old one is lost."""
        lost = self._loaded is not None
        self._unload()
        try:
            self._loaded = loaded_pair.open_target(options)
        except RedlineError as error:
            if lost:
                error.args = (f"{error}; the model that was loaded before is gone: load it again",)
            raise
        self.pair = protocol.Pair(target=wanted.target, drafter="none", context=wanted.context, hosts=wanted.hosts)
        return self.pair

    def _open_drafter(self, wanted: protocol.Pair) -> None:
        """Loads the drafter of a pair; the old one goes first. One that is refused leaves none."""
        self._loaded = self._pair.with_drafter(NO_DRAFTER)
        self._loaded.clear()
        self._loaded.session.kept.forget_drafters()
        self._loaded.target.model.forget_all_taps()
        loaded_pair.release_memory()
        self._loaded = self._loaded.try_drafter(wanted.drafter, wanted.tree)

    def _unload(self) -> None:
        if self._loaded is not None:
            self._loaded = self._seats = self.pair = self._next = None
            self._last_tokens.clear()
            self._unwritten.clear()
            loaded_pair.release_models()

    def _description(self, number: int, options: Options, wanted: protocol.Pair) -> protocol.Loaded:
        """Returns the description of the loaded pair."""
        pair = self._pair
        defaults, switches = pair.defaults, pair.target.tokenizer.switches
        speculation: protocol.Speculation = "unsupported" if pair.refusal else "on" if pair.has_drafter else "off"
        return protocol.Loaded(
            id=number,
            pair=wanted,
            target=target_name(options),
            drafter=pair.drafter.name,
            speculation=speculation,
            note=join_notes(pair.refusal or pair.drafter.note, pair.note, defaults.note),
            drafts_trees=pair.drafter.branches,
            context=pair.session.context,
            vocabulary=pair.vocabulary,
            defaults=dict(defaults.values),
            thinking=bool(switches.thinking),
            efforts=switches.efforts,
            tools=pair.target.tokenizer.tools is not None,
            machines=_machines(pair, options),
        )


def with_seed(settings: SamplingSettings) -> SamplingSettings:
    """Returns the settings with a seed, which is drawn for this reply alone if they have none."""
    if settings.seed is not None:
        return settings
    return replace(settings, seed=secrets.randbelow(2**31), fresh=True)


def _machines(pair: LoadedPair, options: Options) -> protocol.Machines | None:
    """Returns the machines that share the target, None for this one alone."""
    if (joined := cluster.connect(options.hosts)) is None:
        return None
    pass_s, row_s = joined.network_s
    names = tuple(host.ssh for host in joined.hosts)
    return protocol.Machines(names=names, memory=joined.memory_text(pair.needed), pass_s=pass_s, row_s=row_s)


def _unreachable(
    request: protocol.Load, alone: Options, error: RedlineError, kept: protocol.Pair | None
) -> protocol.Failed:
    """Returns the answer where machines cannot be joined, with whether the target fits on this one alone."""
    try:
        check_memory(check_folder(target_folder(alone)), alone)
        fits = True
    except RedlineError:
        fits = False
    return protocol.Failed(
        id=request.id, kind=type(error).__name__, message=str(error), kept_pair=kept, fits_alone=fits
    )


def _short_name(spec: str) -> str:
    """Returns what to call a target or drafter before its folder is known."""
    return "the built-in model" if spec == "builtin" else spec.rstrip("/").rpartition("/")[2] or spec


def _check(stop: StopFlag) -> None:
    """Raises StoppedError once `stop` is set."""
    if stop.is_set():
        raise StoppedError("stopped before the reply began")
