"""The models on this machine, whichever program downloaded them.

    locations      the folders of models: the Hugging Face cache, LM Studio's, Redline's own
    completeness   whether a folder is a complete model, without loading it
    hub_snapshots  the revisions in the Hugging Face cache
    inventory      the models present: name, folder, size, last use, shared files
    model_lookup   finds the folder that a name means
    removal        plans a deletion and carries it out

This package imports nothing.
"""
