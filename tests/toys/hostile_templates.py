"""Chat templates that want more time, memory or text than a prompt needs, and templates of random statements."""

import random

COUNTS = (10**3, 10**5, 10**7, 10**8, 10**9, 10**12, 10**18)
# N stands for a number. Each of these asked transformers for gigabytes or for hours.
CRAFTED = (
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% for a in range(99999) %}{% for b in range(99999) %}{{ a }}{% endfor %}{% endfor %}",
    "{% for a in range(N) %}{{ messages }}{% endfor %}",
    "{{ 'a' * N }}",
    "{{ ('a' * N) | length }}",
    "{{ ([messages] * N) | length }}",
    "{{ messages | tojson(indent=N) }}",
    "{% set n = namespace(s='ab') %}{% for i in range(N) %}{% set n.s = n.s ~ n.s %}{% endfor %}{{ n.s }}",
    "{% set n = namespace(s=[1]) %}{% for i in range(40) %}{% set n.s = n.s + n.s %}{% endfor %}{{ n.s | length }}",
    "{% macro f(n) %}{{ f(n + 1) }}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) ~ f(n - 1) }}{% else %}x{% endif %}{% endmacro %}{{ f(60) }}",
    "{{ 9 ** 9 ** 9 }}",
    "{{ 9 ** N }}",
    "{{ '%Nd' % 1 }}",
    "{{ '{:>N}'.format(1) }}",
    "{{ 'x'.center(N) }}",
    "{{ 'x'.ljust(N) ~ 'x'.zfill(N) }}",
    "{{ 'x' | indent(N) }}{{ 'a\nb\nc' | indent(N) }}",
    "{{ ('ab' * 99999).replace('a', 'ab' * 99999) | length }}",
    "{{ '\t\t'.expandtabs(N) }}",
    "{{ strftime_now('%Y' * N) }}",
    "{{ strftime_now('%999999999Y') }}",
    "{{ range(99999) | map('string') | join('x' * N) | length }}",
    "{{ range(99999) | list | string * N }}",
    "{{ ('a' * 99999 ~ 'b') | replace('a', 'aa' * N) }}",
    "{{ messages | batch(N, 'x') | list }}",
    "{{ messages | slice(N) | list | length }}",
    "{{ lipsum(n=N) }}",
    "{{ cycler(*range(99999)) }}{{ dict.fromkeys(range(99999), 'x' * N) }}",
    "{{ ('(' * 99999) }}" + "{{ " + "(" * 400 + "1" + ")" * 400 + " }}",
    "{% if " + "not " * 3000 + "x %}{% endif %}",
    "{{ 1" + "+1" * 20000 + " }}",
    "{% for a in messages %}" * 30 + "x" + "{% endfor %}" * 30,
    "{{ strftime_now('" * 20000,
    "{% block a %}{{ self.a() }}{% endblock %}",
    "{% include 'x' %}",
    "{% extends 'x' %}",
    "{{ raise_exception('\x1b]52;c;aGk=\x07' * 9999) }}",
    "{{ raise_exception(messages * N) }}",
    "{{ messages[0].content.join(range(99999) | map('string')) * 9999 }}",
    "{{ range(99999) | sort | unique | list | tojson(indent=9999) }}",
    "{{ '\\ud800' }}",
    "{{ messages | urlize(N) }}{{ ('a.com ' * 99999) | urlize | wordwrap(1) }}",
    "{{ ('a' * 9999) | wordwrap(1, wrapstring='x' * N) }}",
    "{{ ('<' * 99999) | striptags | escape | urlencode | title }}",
    "{% generation %}{{ 'a' * N }}{% endgeneration %}",
    "{{ 'x' * 3 }}",
)
_EXPRESSIONS = (
    "messages", "messages[0].content", "'ab'", "range(9)", "n.s", "1", "9999", "-1", "x", "loop", "none", "bos_token",
    "(E + E)", "(E ~ E)", "(E * E)", "(E ** E)", "(E % E)", "E[E]", "E.content", "E.join(E)", "E.format(E)",
    "E|length", "E|tojson", "E|list", "E|string", "E|join(E)", "E|indent(E)", "E|replace('a', E)", "E|tojson(indent=E)",
    "E|center(E)", "E|batch(E)|list", "E|map('string')|list", "E.split(E)", "E.zfill(E)", "range(E)", "strftime_now(E)",
)  # fmt: skip
_STATEMENTS = (
    *("{{ E }}", "{% for i in E %}S{% endfor %}", "{% if E %}S{% else %}S{% endif %}", "{% set x = E %}"),
    *("{% set n.s = E %}", "SS", "text", "{% macro f(x) %}S{% endmacro %}", "{{ f(E) }}"),
)


def craft(dice: random.Random) -> str:
    """One of the templates above, with a number."""
    return dice.choice(CRAFTED).replace("N", str(dice.choice(COUNTS)))


def grow(dice: random.Random) -> str:
    """A template that grew from the grammar above."""
    template = "{% set n = namespace(s='ab') %}" + "S" * dice.randint(1, 6)
    for letter, rules in (("S", _STATEMENTS), ("E", _EXPRESSIONS)):
        for _ in range(dice.randint(5, 60)):
            template = template.replace(letter, dice.choice(rules), 1)
    return template.replace("S", "").replace("E", "messages")
