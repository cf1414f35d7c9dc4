"""What a caller sees of a job: pure functions of its rows."""
