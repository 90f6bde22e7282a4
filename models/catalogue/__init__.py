"""The catalogue: targets and drafters that people run on Apple Silicon, and the drafters known for each target.

entries     the entries, and the reader of models/catalogue.toml
search      finds entries by words, kind and memory of a Mac, estimates whether weights fit one, recommends targets
hub_check   asks the hub whether every entry still exists
"""
