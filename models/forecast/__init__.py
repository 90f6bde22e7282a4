"""Forecasts what a drafter brings, from texts that the target wrote alone: the pair generates nothing together.

Every acceptance rule keeps the target's distribution, so the text of a speculative reply is distributed as the
target's own text, whatever the drafter. Given that text, whether a drafted token is accepted depends only on the two
distributions p and q at its position, x being the token of the text:

    greedy      accepted if x is the drafter's most likely token
    rejection   accepted with probability min(1, q(x) / p(x))
    coupled     accepted with the probability that q yields x under the noise with which p yields x

A draft that has no q, such as a copy or a tree, is accepted as far as it follows the text. So the rounds along a text
are a Markov chain over its positions, and their expected number is a sum (`models.expected_rounds`).

In coupled sampling both distributions yield x under one Gumbel noise with probability
1 / sum_y max(p(y) / p(x), q(y) / q(x)). Divided by p(x), the probability that p yields x, that is the probability
that the drafter's choice is accepted where the text has x.

    target_text   the text, and the logits and hidden states of the target along it
    text_drafts   what a drafter proposes before each of its tokens, and with what probability that is accepted
    forecast      tau and speed-up by draft length, from round times; the interval

`app.forecast.forecaster` has the target write the texts, and brings the round times.
"""
