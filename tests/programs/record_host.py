"""Makes recorded.jsonl anew, with the built-in model: python -m tests.programs.record_host"""

from app.protocol import Load, Loaded, Message, Pair, Reply, ReplyDone, SamplingSettings
from tests.app.host.process import RECORDED, HostProcess
from tests.app.host.replies import text_of

ASKED = (
    (
        "Why is the sky blue? Answer with a heading, a short paragraph and a list.",
        SamplingSettings(max_tokens=150, draft_length=3, seed=0),
    ),
    (
        "Write a short Python function that adds two numbers, in a code block.",
        SamplingSettings(max_tokens=120, temperature=0.7, acceptance="coupled", seed=7),
    ),
)


def main() -> None:
    messages: list[Message] = []
    with HostProcess("--record", RECORDED) as host:
        host.ready().send(Load(id=1, pair=Pair(drafter="eagle3")))
        host.until(Loaded)
        for number, (question, sampling) in enumerate(ASKED, 2):
            messages.append(Message(role="user", content=question))
            host.send(Reply(id=number, messages=tuple(messages), sampling=sampling, timed=True))
            text = text_of(host.until(ReplyDone))
            messages.append(Message(role="assistant", content=text))
            print(text)
        host.quit()


if __name__ == "__main__":
    main()
