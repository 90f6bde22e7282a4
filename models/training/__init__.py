"""Trains a drafter for a target on this machine, from text that the target writes itself, and measures the result.

    training_plan            the amounts of everything, fixed before the work starts
    plan_measurement         measures this machine and makes the plan
    resource_needs           disk and memory that a plan needs
    workspace                the folder of an unfinished fit
    pipeline                 the stages, one after the other, as a stream of progress
    training_prompts         the prompts that the target answers
    text_generation          generates many texts in a batch
    corpus                   the conversations, stored in shards, and the draft vocabulary
    target_states            hidden states and distributions of the target
    batches                  conversations as arrays
    trainee, trainee_kinds   the protocol of a drafter in training, and its implementations by name
    eagle3_trainee, medusa_trainee, draft_model_trainee, mtp_trainee, dflash_trainee
    target_layer             the sizes and weights that a head takes from the target
    eagle3_initialization    weights that an EAGLE-3 head starts with, an induction head among them
    trainer                  the loss, the optimizer and the checkpoints
    evaluation               acceptance and expected speed-up on held-out text, and their plot

Training needs nothing but the target: no corpus, no network, no other model.
"""
