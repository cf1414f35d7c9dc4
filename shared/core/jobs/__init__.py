"""A job: its states, transitions, history, plan, replies and redrives."""
