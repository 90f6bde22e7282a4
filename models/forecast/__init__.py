"""Forecasts what a drafter brings, from texts that the target wrote alone: the pair generates nothing together.

Every acceptance rule keeps the target's distribution, so the text of a speculative reply is distributed as the
target's own text, whatever the drafter. Given that text, whether a drafted token is accepted depends only on the two
distributions p and q at its position, x being the token of the text:

    greedy      accepted if x is the drafter's most likely token
    rejection   accepted with probability min(1, q(x) / p(x))
    coupled     accepted with the probability that q yields x under the noise with which p yields x

So the rounds along a text are a Markov chain over its positions, and their mean number is a sum
(`models.expected_rounds`), for every draft length at once. That is done for draft models and EAGLE-3 heads of one layer
that draft token by token, and for chains of prompt lookup. For other drafters, for trees, and where a policy decides
along the way, the loop itself runs along the text instead.

    teacher_forcing        the target's and the drafter's distributions over a text, in one pass each
    distribution_overlap   acceptance probabilities, overlap, divergence, entropy and calibration of p and q
    loop_simulation        the decoding loop along a text, with the real drafter and a target that replays the text
    round_totals           counts and seconds of forecast replies
    text_forecast          all of these for one target and its drafters
"""
