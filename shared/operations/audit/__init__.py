"""Signed heads, anchors and public keys."""
