"""The models on this machine, whichever program downloaded them.

    locations      the folders of models (the Hugging Face cache, LM Studio's, Redline's own), and the one a name means
    completeness   whether a folder is a complete model, without loading it
    inventory      the models present: name, folder, size, last use, shared files
    removal        plans a deletion and carries it out

This package imports nothing.
"""
