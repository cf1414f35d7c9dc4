"""The interfaces that operations need; `shared.adapters` implements them, `shared.wiring` chooses."""
