"""Jobs: states, transitions, history, plans, replies, controls, redrives and replays."""
