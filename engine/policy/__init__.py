"""How much to draft in each round, and when to stop: fixed, or adaptive by measured costs and learnt acceptance."""
