"""`python -m servicebus_emulator`."""

from servicebus_emulator.command import main

main()
