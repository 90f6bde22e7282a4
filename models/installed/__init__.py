"""Models that are on this machine already, whoever brought them.

    places     where models lie: the Hugging Face cache, LM Studio's folder, Redline's own
    whole      is a folder a whole model, without loading it
    inventory  what is present: name, place, size, last use, who shares its files
    resolve    from a name to the folder that it means
    uses       when a model was last used, on disk
    removal    what deleting one takes away, from whom, and doing it

Nothing is imported here.
"""
