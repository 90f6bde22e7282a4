"""A host that replies with the file that the question names: `python -m tests.app.window.chat.text_host {}`."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from app import protocol as p
from engine.events import Finished, PromptProgress, Round
from tests.app.window.chat.fake_host import ROUND_S, Behaviour, FakeHost

ROUND_TOKENS = 4  # tokens, of which all but the last were drafted


class TextRequest(msgspec.Struct, frozen=True):
    """What to reply with, as JSON in the question. token: characters of each token."""

    file: str
    token: int = 4


class TextHost(FakeHost):
    """Writes the text as fast as it is read; otherwise behaves as the fake host."""

    def reply(self, request: p.Reply) -> Iterator[bool]:
        wanted = msgspec.json.decode(request.messages[-1].content, type=TextRequest)
        text = Path(wanted.file).read_bytes().decode()
        self.send(p.PrefillProgress(id=request.id, progress=PromptProgress(30, 30, 0, 0.01)))
        step = wanted.token * ROUND_TOKENS
        for index, start in enumerate(range(0, len(text), step)):
            if self.over(request.id):
                self.end(request, "cancelled", index)
                return
            part = text[start : start + step]
            texts = tuple(part[at : at + wanted.token] for at in range(0, len(part), wanted.token))
            self.send(p.RoundDone(id=request.id, round=_round(index, texts, ROUND_S * index)))
            yield True
        finished = Finished("eos", -(-len(text) // wanted.token), 1.0, "")
        self.send(p.ReplyDone(id=request.id, finished=finished, seed=request.sampling.seed or 0))


def _round(index: int, texts: tuple[str, ...], time_s: float) -> Round:
    numbers = tuple(range(index * ROUND_TOKENS, index * ROUND_TOKENS + len(texts)))
    return Round(
        index=index,
        tokens=numbers,
        drafted=numbers[:-1],
        accepted=len(numbers) - 1,
        p=(0.5,) * len(numbers),
        q=(0.5,) * (len(numbers) - 1),
        width=len(numbers),
        time_s=time_s,
        reason="fixed at 3",
        texts=texts,
    )


def command() -> list[str]:
    """Returns the command that starts this host."""
    return [sys.executable, "-m", __name__, "{}"]


def main(words: Sequence[str]) -> None:
    TextHost(msgspec.json.decode(words[0], type=Behaviour)).run()


if __name__ == "__main__":
    main(sys.argv[1:])
