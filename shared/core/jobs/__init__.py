"""Jobs: states, transitions, history, plan, replies and redrives."""
