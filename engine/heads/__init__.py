"""Networks that read a target's hidden states. What drafts with them is in `engine.drafters`."""
