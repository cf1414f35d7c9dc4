"""The interfaces that operations need. `shared.adapters` implements them, and `shared.wiring` selects the
implementations.
"""
