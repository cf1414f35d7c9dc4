"""What the operations need of the world; `shared.adapters` implements it, `shared.wiring` chooses."""
