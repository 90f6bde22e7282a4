"""Models from the hub, into the Hugging Face cache that every tool of this machine shares.

    names     what a repository, a revision and a file may be called; everything the hub says is checked by it
    allowed   which files of a repository are fetched: weights in safetensors, JSON, tokenizer, chat template
    hub       where the hub is, what is sent to it, how patiently
    listing   what a revision holds, with sizes and digests (files: their types)
    transfer  one file, resumed by bytes, verified
    crew      several at once; tally and pace: how much came, how fast
    cache     where blobs, snapshots and unfinished work lie
    pull      a whole model: a stream of events
    failures  whatever goes wrong, in one line that says what to do

Nothing is imported here, so that `models.hub.events` may be read by a process that must stay light.
"""
