"""Chat templates that differ in the turns that they take: each gets its own, and no text is lost."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from models.template_switches import USUAL_EFFORTS, Switches
from models.tokenizer_worker import Chat, OpenTokenizer, probe, render
from models.tool_formats import ToolFormat
from models.turn_shape import THOUGHT_NAMES, TurnShape, shaped

USER, SYSTEM = {"role": "user", "content": "why"}, {"role": "system", "content": "be brief"}
ANSWER, MORE = {"role": "assistant", "content": "because"}, {"role": "user", "content": "and then"}
RESULTS = [{"role": "tool", "content": f"result {n}", "call_id": f"call_{n}"} for n in range(2)]
TOOLS = [{"type": "function", "function": {"name": "look", "description": "", "parameters": {"type": "object"}}}]
LFM2 = ToolFormat("pythonic", "<|tool_call_start|>", "<|tool_call_end|>")

OPENING = "{% for m in messages %}<{{ m.role }}>"
PLAIN = "{{ m.content }}"
ARGUMENTS = "{{ c.function.name }}={{ c.function.arguments | tojson }};"
CALLS = "{% for c in m.tool_calls or [] %}" + ARGUMENTS + "{% endfor %}"
CLOSING = "{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}<assistant>"
RAISE = "{{ raise_exception('no') }}"


def calls(count: int = 1, content: str = "", thought: str = "") -> dict[str, Any]:
    made = [{"id": f"call_{n}", "name": f"look_{n}", "arguments": json.dumps({"at": f"<{n}>"})} for n in range(count)]
    return {"role": "assistant", "content": content, "thought": thought, "calls": made}


def template(content: str = PLAIN, calls: str = CALLS, before: str = "") -> str:
    return before + OPENING + content + calls + CLOSING


def written(text: str, messages: Sequence[dict[str, Any]], tools: ToolFormat | None = None) -> str:
    """Returns what a template writes of a conversation, in the shape that was found for it."""
    shape = shape_of(text, tools)
    return render(OpenTokenizer(None, {}), Chat(0, shaped(messages, shape, tools), text, {}, TOOLS, shape.lists))


def shape_of(text: str, tools: ToolFormat | None = None) -> TurnShape:
    names = "" if tools is None else f"{tools.start} {tools.end}"
    return probe(OpenTokenizer(None, {}, names), text).shape


def test_a_template_that_takes_everything_gets_what_was_said() -> None:
    assert shape_of(template()) == TurnShape()
    text = written(template(), [SYSTEM, USER, calls(2, "I look"), *RESULTS, ANSWER, MORE])
    assert text.startswith("<system>be brief<user>why<assistant>I looklook_0=")
    assert "<tool>result 0<tool>result 1<assistant>because<user>and then" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ c.function.name }}={{ c.function.arguments }};", '{"at": "<0>"}'),
        ("{{ c.function.name }}={{ c.function.arguments | tojson }};", '{"at": "<0>"}'),
        ("{% for k, v in c.function.arguments.items() %}{{ c.function.name ~ k ~ v }}{% endfor %}", "look_0at<0>"),
    ],
    ids=["text", "object", "pairs"],
)
def test_arguments_are_text_or_an_object(text: str, expected: str) -> None:
    found = written(template(calls=CALLS.replace(ARGUMENTS, text)), [USER, calls(), RESULTS[0]])
    assert expected in found and "\\" not in found


def test_a_turn_without_text_has_no_content_where_the_template_says_so() -> None:
    text = template(
        "{% if m.content is none %}{% elif m.content or not m.tool_calls %}"
        + PLAIN
        + "{% else %}"
        + RAISE
        + "{% endif %}"
    )
    assert shape_of(text).empty == "none"
    assert "<assistant>look_0" in written(text, [USER, calls(), RESULTS[0]])


def test_templates_of_one_call_a_turn_get_each_with_its_result() -> None:
    text = template(calls="{% if (m.tool_calls or []) | length > 1 %}" + RAISE + "{% endif %}" + CALLS)
    found = written(text, [USER, calls(2, "I look"), *RESULTS])
    assert "<assistant>I looklook_0=" in found and "<tool>result 0<assistant>look_1=" in found
    assert found.count("result 1") == 1


def test_calls_are_text_where_the_template_leaves_them_out() -> None:
    assert "<assistant>I look<|tool_call_start|>[look_0(at='<0>')]<|tool_call_end|><tool>result 0" in written(
        template(calls=""), [USER, calls(1, "I look"), RESULTS[0]], LFM2
    )


def test_results_stand_in_the_order_of_their_calls() -> None:
    found = written(template(), [USER, calls(2), *RESULTS[::-1], ANSWER])
    assert "<tool>result 0<tool>result 1<assistant>because" in found


def test_ids_are_of_nine_letters_where_the_template_insists() -> None:
    check = "{% if c.id | length != 9 %}" + RAISE + "{% endif %}{{ c.id }}"
    results = "{% if m.tool_call_id %}[{{ m.tool_call_id }}]{% endif %}"
    found = written(template(PLAIN + results, CALLS.replace(ARGUMENTS, check + ARGUMENTS)), [USER, calls(), RESULTS[0]])
    given = found.partition("[")[2][:9]
    assert given.isalnum() and found.count(given) == 2
    own = [USER, {**calls(), "calls": [{**calls()["calls"][0], "id": "abcdefghi"}]}]
    assert shaped(own, TurnShape(ids="letters"))[1]["tool_calls"][0]["id"] == "abcdefghi"


def test_ids_name_the_function_where_the_template_writes_them_alone() -> None:
    text = template(calls=CALLS.replace("c.function.name", "c.id"))
    found = written(text, [USER, calls(2), *RESULTS])
    assert "functions.look_0:0=" in found and "functions.look_1:1" in found


@pytest.mark.parametrize("name", THOUGHT_NAMES)
def test_a_thought_goes_under_the_name_that_the_template_reads(name: str) -> None:
    text = template("{{ m." + name + " }}" + PLAIN)
    assert "<assistant>hm I look" in written(text, [USER, calls(1, " I look", "hm"), RESULTS[0]])


def test_a_thought_is_a_part_or_between_tags_where_only_that_is_read() -> None:
    parts = (
        "{% if m.content is string %}"
        + PLAIN
        + "{% else %}{% for p in m.content %}({{ p[p.type] }}){% endfor %}{% endif %}"
    )
    assert "<assistant>(hm)(because)" in written(template(parts), [USER, {**ANSWER, "thought": "hm"}])
    tags = template("{{ m.content if loop.last else m.content.split('</think>')[-1] }}")
    assert "<think>\nhm\n</think>" in written(tags, [USER, {**ANSWER, "thought": "hm"}])
    assert "hm" not in written(tags, [USER, {**ANSWER, "thought": "hm"}, MORE])
    assert "hm" not in written("{#- </think> #}" + template(), [USER, {**ANSWER, "thought": "hm"}, MORE])
    assert shape_of(template()).thought == "named"  # a template that leaves thoughts out is given none in the text


def test_text_thought_and_call_of_one_turn_are_kept_where_the_template_takes_two_of_them() -> None:
    text = template(
        "{% if m.content and m.thinking and m.tool_calls %}" + RAISE + "{% endif %}{{ m.thinking }}" + PLAIN
    )
    assert "<assistant>hm\n\nI looklook_0" in written(text, [USER, calls(1, "I look", "hm"), RESULTS[0]])
    lost = template("{% if not m.tool_calls %}" + PLAIN + "{% endif %}{{ m.reasoning }}")
    assert "<assistant>I look<assistant>hmlook_0" in written(lost, [USER, calls(1, "I look", "hm"), RESULTS[0]])


def test_a_system_text_goes_into_the_question_where_there_is_no_such_turn() -> None:
    text = template("{% if m.role == 'system' %}" + RAISE + "{% endif %}" + PLAIN)
    assert "<user>be brief\n\nwhy<assistant>because" in written(text, [SYSTEM, USER, ANSWER, MORE])
    assert "<user>why<assistant>because<user>be brief\n\nand then" in written(text, [USER, ANSWER, SYSTEM, MORE])
    later = template("{% if m.role == 'system' and not loop.first %}" + RAISE + "{% endif %}" + PLAIN)
    assert written(later, [SYSTEM, USER, SYSTEM, MORE]).startswith(
        "<system>be brief<user>why<user>be brief\n\nand then"
    )


def test_turns_of_one_role_are_joined_where_they_must_alternate() -> None:
    check = "{% if m.role != 'tool' and ((m.role == 'user') != (loop.index0 % 2 == 0)) %}" + RAISE + "{% endif %}"
    text = template(check + PLAIN)
    assert written(text, [USER, MORE]).startswith("<user>why\n\nand then")
    assert written(text, [ANSWER, USER]).startswith("<user><assistant>because<user>why")
    assert written(text, [USER, ANSWER, ANSWER]).startswith("<user>why<assistant>because\n\nbecause")


def test_ids_that_a_client_uses_again_belong_to_the_last_turn_that_has_them() -> None:
    text = template(calls="{% if (m.tool_calls or []) | length > 1 %}" + RAISE + "{% endif %}" + CALLS)
    again = [{**one, "content": f"again {n}"} for n, one in enumerate(RESULTS)]
    found = written(text, [USER, calls(2), *RESULTS, calls(2), *again])
    order = [found.index(f"<tool>{word} {n}") for word in ("result", "again") for n in range(2)]
    assert order == sorted(order)


def test_a_system_text_that_the_template_drops_in_a_loop_of_calls_stays_in_the_last_question() -> None:
    system = "{% if m.role == 'system' %}{% elif loop.last and messages[0].role == 'system' %}"
    text = OPENING + system + "{{ messages[0].content + '\n\n' if m.role == 'user' }}" + PLAIN + "{% else %}" + PLAIN
    text = text + "{% endif %}" + CALLS + CLOSING
    assert shape_of(text).system == "last"
    assert "<user>be brief\n\nwhy<assistant>look_0" in written(text, [SYSTEM, USER, calls(), RESULTS[0]])
    assert written(text, [SYSTEM, USER, ANSWER, MORE]).endswith(
        "be brief\n\nand then" + json.dumps(TOOLS) + "<assistant>"
    )


def test_an_answer_stands_between_a_result_and_a_question_where_it_must() -> None:
    check = "{% if m.role == 'user' and not loop.first and messages[loop.index0 - 1].role == 'tool' %}" + RAISE
    text = template(check + "{% endif %}" + PLAIN)
    assert "<tool>result 0<assistant><user>and then" in written(text, [USER, calls(), RESULTS[0], MORE])


def test_text_before_calls_is_left_out_where_every_form_of_it_is_refused() -> None:
    alone = "{% if m.role == 'assistant' and not m.tool_calls and loop.nextitem is defined "
    lone = alone + "and loop.nextitem.role == 'assistant' %}" + RAISE
    text = template(lone + "{% endif %}{% if not m.tool_calls %}" + PLAIN + "{% endif %}")
    found = written(text, [USER, calls(1, "I look"), RESULTS[0], ANSWER])
    assert "look_0" in found and "I look" not in found and "because" in found


def test_a_template_may_append_to_its_own_list_and_read_nothing_of_the_interpreter() -> None:
    text = template(before="{% set n = namespace(l=[]) %}{% set _ = n.l.append('x') %}{{ n.l | length }}")
    assert written(text, [USER]).startswith("1<user>why")
    with pytest.raises(Exception, match=r"unsafe|undefined"):
        render(OpenTokenizer(None, {}), Chat(0, [USER], "{{ messages.__class__.__mro__ }}"))


def test_content_is_a_list_of_parts_for_models_that_see() -> None:
    text = template("{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% endif %}{% endfor %}")
    assert written(text, [SYSTEM, USER]).startswith("<system>be brief<user>why")


def test_tools_are_an_empty_list_where_the_template_runs_over_them() -> None:
    text = template(before="{% for t in tools %}{{ t.function.name }}{% endfor %}")
    assert shape_of(text).lists and probe(OpenTokenizer(None, {}), text).switches.tools == "tools"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Switches()),
        ("{% nonsense %}", Switches()),
        ("{% generation %}{{ thinking }}{% endgeneration %}", Switches()),  # it writes the value: no switch
        ("{% if not thinking %}x{% endif %}", Switches({"thinking": True}, {"thinking": False})),
        ("{% if no_thinking %}x{% endif %}", Switches({"no_thinking": False}, {"no_thinking": True})),
        (
            "{% if thinking_mode == 'enabled' %}x{% elif thinking_mode == 'disabled' %}y{% endif %}",
            Switches({"thinking_mode": "enabled"}, {"thinking_mode": "disabled"}),
        ),
        (
            "{% set o = thinking_option | default('on') %}{% if o == 'x' %}{% endif %}"
            "{% if thinking_option == 'off' %}y{% elif thinking_option == 'on' %}z{% endif %}",
            Switches({"thinking_option": "on"}, {"thinking_option": "off"}),
        ),
        (
            "{% if thinking_budget == 0 %}n{% elif thinking_budget == -1 %}{% else %}"
            "{% for k in {512: 1, 1024: 2} %}{% if thinking_budget <= k %}{{ k }}{% endif %}{% endfor %}{% endif %}",
            Switches(
                {"thinking_budget": -1}, {"thinking_budget": 0},
                {str(n): {"thinking_budget": n} for n in (512, 1024)},
            ),
        ),
        ("{{ 'effort ' + (reasoning_strength or 'high') }}", [*USUAL_EFFORTS]),
        ("{% if reasoning_effort == 'max' %}x{% endif %}", ["max"]),
        ("{% if reasoning_effort == 'none' %}x{% endif %}", ["none"]),
        (
            "{% set e = reasoning_effort if reasoning_effort is defined else 'high' %}"
            "{% if reasoning_effort in ['low', 'minimal'] %}x{% endif %}", ["minimal", "low", "high"],
        ),
        (
            "{% if reasoning_effort is defined and reasoning_effort not in ['high', 'low', 'no_think'] %}"
            "{{ raise_exception('no') }}{% endif %}{{ reasoning_effort }}", ["no_think", "low", "high"],
        ),
        (
            "{% if thinking and reasoning_effort == 'max' %}x{% endif %}{% if thinking %}y{% endif %}",
            Switches(
                {"thinking": True}, {"thinking": False}, {"max": {"thinking": True, "reasoning_effort": "max"}},
            ),
        ),
        ("{% if thinking_effort == 'never-read' and false %}{% endif %}", Switches()),
        ("{% if preserve_thinking %}{{ messages[0].thinking }}{% endif %}", Switches()),
    ],
)  # fmt: skip
def test_switches_are_those_that_change_what_the_template_writes(text: str, expected: Switches | list[str]) -> None:
    found = probe(OpenTokenizer(None, {}), text + "{{ messages[-1].content }}").switches
    assert (list(found.efforts) if isinstance(expected, list) else found) == expected


def test_tools_come_with_an_empty_system_turn_where_the_template_tells_of_them_only_there() -> None:
    text = OPENING + PLAIN + "{% if m.role == 'system' and tools %}{{ tools | tojson }}{% endif %}{% endfor %}"
    shape = shape_of(text)
    assert not shape.tells_tools
    assert shaped([USER], shape, offered=True)[0] == {"role": "system", "content": ""}
    assert shaped([USER], shape)[0] == USER and shaped([SYSTEM, USER], shape, offered=True)[0] == SYSTEM
