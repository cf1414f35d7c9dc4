"""Response models of a job: pure functions of its rows."""
