"""Messages and HTTP bodies that other programs see. These modules depend on pydantic only."""
