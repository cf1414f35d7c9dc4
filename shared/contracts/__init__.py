"""Messages and HTTP bodies that other programs see. They depend on pydantic only."""
