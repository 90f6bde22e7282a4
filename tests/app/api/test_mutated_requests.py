"""Mutated requests: the short form of `python -m tests.programs.api_load --mutated N`, in this process."""

import random

from tests.app.api.api_calls import Api, with_api
from tests.programs.api_load import mutated


def test_mutated_requests_are_refused_or_answered_and_never_fail():
    async def scenario(api: Api) -> set[int]:
        random_ = random.Random(7)
        statuses = set()
        for _ in range(600):
            path, body = mutated(random_)
            answer = await api.call("POST", path, body)
            assert answer.status < 500, (path, body)
            statuses.add(answer.status)
        assert api.client.pending == 0
        return statuses

    assert {200, 400} <= with_api(scenario)
