"""Training a drafter for a target on this machine: the target writes, the drafter learns its law, and is judged.

    plan         how much of everything, decided once            preparing    measures what the machine does
    work         the folder of an unfinished fit                 fitting      the stages, one after the other
    prompts      what the target is asked                        writing      many texts side by side
    corpus       conversations, shard by shard                   reading      hidden states and laws of the target
    batches      what is trained on together                     training     one optimiser for all kinds
    trainee      what a drafter in training must offer           eagle3, medusa, draft: the kinds
    induction    what an EAGLE-3 head begins with                report       all that was judged as a picture
    judging      acceptance, speed-ups, a verdict                likeness     the target's own end, which it is like
    needs        disk and memory, said beforehand                vocabulary   which tokens a head knows

The tool needs nothing but the target: no corpus, no network, no other model.
"""
