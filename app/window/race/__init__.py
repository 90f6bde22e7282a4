"""The Race window: asks for a race, shows its measurement, replays it side by side, and exports it."""
