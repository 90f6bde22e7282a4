"""What `redline doctor --metal` measures on a GPU, so that a user can attach it to an issue."""
