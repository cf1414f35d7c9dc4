"""What the operations need from outside; `shared.adapters` implements it, `shared.wiring` chooses."""
