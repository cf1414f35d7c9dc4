"""Messages and HTTP bodies that other programs see; they need pydantic and nothing else."""
