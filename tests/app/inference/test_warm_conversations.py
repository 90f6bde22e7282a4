"""Turns of a conversation read again only what changed, whatever caches the target has and whatever its template takes
back; and agents that share a prompt share what was read of it."""

from pathlib import Path
from threading import Event
from typing import Any

import pytest

from app import protocol as p
from app.host.model_worker import ModelWorker
from engine.kept_conversations import common_prefix
from tests.toys.architectures_recurrent import RECURRENT as CONFIGS
from tests.toys.folders import as_architecture, make_folder
from tests.toys.tool_families import FAMILIES, HERMES, make_tool_folder

CONTEXT = 4096
TURN = "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
HEADER = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}OPENING{% endif %}"
# A template keeps its generation prompt, or takes back what it ended it with; with a switch for that or without.
TEMPLATES = {
    "kept": HEADER.replace("OPENING", ""),
    "withdrawn": HEADER.replace("OPENING", "{{ '<think>\\n' }}"),
    "switched": HEADER.replace(
        "OPENING", "{{ '<think>\\n\\n</think>\\n\\n' if enable_thinking is false else '<think>\\n' }}"
    ),
}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "qwen3": {"head_dim": 16},
    "gemma3_text": {"query_pre_attn_scalar": 8.0, "sliding_window_pattern": 2, "sliding_window": 64},
    "mamba2": CONFIGS["mamba2"],
    "qwen3_next": {},
}
SYSTEM = p.Message(role="system", content="You are careful. " * 24)


# Shows the thoughts since the last question alone, as Qwen3's template does.
THINKING_TOOLS = (
    HERMES.replace(
        "{%- for message in messages %}",
        "{%- set last = namespace(at=0) %}{%- for message in messages %}{%- if message.role == 'user' %}"
        "{%- set last.at = loop.index0 %}{%- endif %}{%- endfor %}{%- for message in messages %}",
    )
    .replace(
        "{{- '<|im_start|>assistant\\n' + message.content }}",
        "{{- '<|im_start|>assistant\\n' }}{%- if loop.index0 > last.at %}"
        "{{- '<think>\\n' + (message.reasoning_content or '') + '\\n</think>\\n' }}{%- endif %}{{- message.content }}",
    )
    .replace("{{- '<|im_start|>assistant\\n' }}{%- endif %}", "{{- '<|im_start|>assistant\\n<think>\\n' }}{%- endif %}")
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("warm")
    make_folder(root / "llama")
    make_tool_folder(root / "qwen3", next(family for family in FAMILIES if family.name == "qwen3"))
    return root


def worker_of(root: Path, name: str, template: str) -> ModelWorker:
    folder = root / f"{name} {template}"
    if not folder.exists():
        tools = template == "tools"
        source = root / ("qwen3" if tools else "llama")
        as_architecture(source, folder, name, **ARCHITECTURES[name], max_position_embeddings=CONTEXT)
        plain = "{% for m in messages %}" + TURN + "{% endfor %}" + TEMPLATES.get(template, "")
        (folder / "chat_template.jinja").write_text(THINKING_TOOLS if tools else plain)
    worker = ModelWorker()
    list(worker.load(p.Load(id=1, pair=p.Pair(target=str(folder), drafter="none", context=CONTEXT))))
    return worker


def user(text: str) -> p.Message:
    return p.Message(role="user", content=text)


def ask(worker: ModelWorker, turns: list[p.Message], **sampling: Any) -> tuple[p.Message, int, int]:
    """Returns the reply as a turn, how many tokens of the prompt were not read again, and how many there were."""
    settings = p.SamplingSettings(max_tokens=24, draft_length=0, **sampling)
    answers = list(worker.reply(p.Reply(id=2, messages=tuple(turns), sampling=settings), Event()))
    progress = [one.progress for one in answers if isinstance(one, p.PrefillProgress)]
    text = "".join(one.round.text_in("answer") for one in answers if isinstance(one, p.RoundDone))
    return p.Message(role="assistant", content=text), progress[0].reused, progress[0].total


def shared_with(worker: ModelWorker, turns: list[p.Message], **sampling: Any) -> int:
    """Returns how many tokens of the next prompt are what the last reply ended with."""
    settings = p.SamplingSettings(**sampling)
    messages = [{"role": turn.role, "content": turn.content} for turn in turns]
    prompt = worker._pair.prompt_ids(messages, settings)
    return common_prefix(worker._pair.session.tokens, prompt)


@pytest.mark.slow_for("mamba2-*", "gemma3_text-*", "qwen3-withdrawn", "qwen3_next-kept", "qwen3_next-switched")
@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_later_turns_read_only_what_is_new(root: Path, name: str, template: str):
    worker = worker_of(root, name, template)
    for sampling in ({"thinking": True}, {"thinking": False}) if template == "switched" else ({},):
        turns = [SYSTEM, user("why is the sky blue " * 8)]
        for question in ("and the sea " * 8, "and the grass " * 8):
            reply, _, _ = ask(worker, turns, **sampling)
            turns += [reply, user(question)]
            shared = shared_with(worker, turns, **sampling)
            _, reused, total = ask(worker, turns, **sampling)
            assert shared > 200 and reused >= 0.95 * (shared - 1), (sampling, reused, shared, total)
            worker._pair.session.forget()
            worker._pair.session.kept.clear()
            ask(worker, turns[:-2], **sampling)
            turns = [*turns[:-2], reply, turns[-1]]


@pytest.mark.slow_for("qwen3", "qwen3_next", "mamba2")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_agents_that_share_a_prompt_keep_their_conversations(root: Path, name: str):
    """Four agents with one system prompt in turn, and a title and a subagent between the turns of another one."""
    worker = worker_of(root, name, "withdrawn")
    agents = [[SYSTEM, user(f"agent {number} looks at file {number} " * 6)] for number in range(4)]
    before: dict[int, list[int]] = {}
    for turn in range(3):
        for number, turns in enumerate(agents):
            prompt = worker._pair.prompt_ids(
                [{"role": one.role, "content": one.content} for one in turns], p.SamplingSettings()
            )
            others = [tokens for other, tokens in before.items() if turn == 0 or other == number]
            possible = max((common_prefix(tokens, prompt) for tokens in others), default=0)
            reply, reused, _ = ask(worker, turns)
            assert reused >= 0.98 * min(possible, len(prompt) - 1) - 1, (turn, number, reused, possible)
            before[number] = list(worker._pair.session.tokens)
            turns += [reply, user(f"go on with {turn} " * 8)]
    ask(worker, [p.Message(role="system", content="Name this conversation."), user("agent 0 looks")])
    ask(worker, [SYSTEM, user("a subagent counts the files " * 10)])
    prompt = worker._pair.prompt_ids(
        [{"role": one.role, "content": one.content} for one in agents[0]], p.SamplingSettings()
    )
    possible = common_prefix(before[0], prompt)
    assert ask(worker, agents[0])[1] >= 0.98 * possible - 1


def test_two_short_questions_after_one_system_prompt_are_two_conversations(root: Path) -> None:
    worker = worker_of(root, "qwen3", "kept")
    turns = [SYSTEM, user("hi")]
    reply, _, _ = ask(worker, turns)
    turns += [reply, user("and then")]
    possible = shared_with(worker, turns)
    ask(worker, [SYSTEM, user("go")])
    assert ask(worker, turns)[1] >= 0.98 * possible - 1


@pytest.mark.slow_for("*-1", "*-8", "gemma3_text-4", "qwen3-4")
@pytest.mark.parametrize("calls", (1, 4, 8))
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_question_after_a_loop_of_calls_reads_only_what_is_new(root: Path, name: str, calls: int) -> None:
    """Thoughts stay in the prompts of the loop, and the next question takes them back: the prompts agree up to the
    first of them."""
    worker = worker_of(root, name, "tools")
    call = p.ToolCall(id="call00001", name="weather", arguments='{"city": "Rome"}')
    tools = p.Tools(offered=(p.Tool(name="weather", parameters='{"type": "object", "properties": {}}'),))

    def read(turns: list[p.Message]) -> tuple[int, int]:
        """Returns how many tokens of the prompt were reused, and with how many the last conversation began alike."""
        settings = p.SamplingSettings(max_tokens=8, draft_length=0)
        before = worker._pair.session.tokens
        request = p.Reply(id=2, messages=tuple(turns), sampling=settings, tools=tools)
        answers = list(worker.reply(request, Event()))
        reused = next(one.progress.reused for one in answers if isinstance(one, p.PrefillProgress))
        return reused, common_prefix(before, worker._pair.session.tokens)

    turns = [SYSTEM, user("why is the sky blue " * 12)]
    read(turns)
    for number in range(calls):
        turns.append(p.Message(role="assistant", content="", thought=f"look {number} " * 8, calls=(call,)))
        turns.append(p.Message(role="tool", content="rain " * 8, call_id=call.id, name=call.name))
        reused, shared = read(turns)
        assert reused >= 0.95 * (shared - 1), (number, reused, shared)
    reused, shared = read([*turns, p.Message(role="assistant", content="It rains."), user("and the sea")])
    assert shared > 200 and reused >= 0.95 * (shared - 1), (reused, shared)


@pytest.mark.slow_for("mamba2-*", "gemma3_text-*", "qwen3-withdrawn", "qwen3_next-kept")
@pytest.mark.parametrize("template", ("kept", "withdrawn"))
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_exact_replies_reuse_whole_blocks_and_are_those_of_cold_caches(root: Path, name: str, template: str) -> None:
    worker = worker_of(root, name, template)
    turns = [SYSTEM, user("why is the sky blue " * 75)]
    reply, _, total = ask(worker, turns, exact=True)
    turns += [reply, user("and the sea " * 8)]
    shared = shared_with(worker, turns, exact=True)
    warm, reused, _ = ask(worker, turns, exact=True)
    assert shared > 1000 and reused >= (min(shared, total) - 1) // 64 * 64
    worker._pair.session.forget()
    worker._pair.session.kept.clear()
    cold, read_again, _ = ask(worker, turns, exact=True)
    assert (cold, read_again) == (warm, 0)
