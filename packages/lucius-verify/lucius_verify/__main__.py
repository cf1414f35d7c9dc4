"""Runs `python -m lucius_verify`."""

from lucius_verify.command import main

main()
