"""Verifies a running service in any language: sends directives as LUCIUS does, and reports each rule."""
