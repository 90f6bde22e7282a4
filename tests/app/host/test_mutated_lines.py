"""Damaged lines both ways, a sample. Long form: `python -m tests.attack protocol`."""

import random

import pytest

from tests.attack import protocol as attack


def test_the_parser_of_answers_raises_one_error_only() -> None:
    assert attack.attack_parser(300, random.Random(5)) == []


@pytest.mark.slow
def test_a_host_and_an_app_that_read_damaged_lines_go_on() -> None:
    assert attack.attack(5, short=True) == []
