"""`python -m functions_emulator`."""

from functions_emulator.command import main

main()
