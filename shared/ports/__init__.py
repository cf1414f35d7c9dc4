"""The interfaces that operations need. `shared.adapters` implements them, and `shared.wiring` selects the
implementations.

A method that reads rows can also raise Undecodable.
"""
