"""Azure Service Bus for development and tests: AMQP 1.0, and the official emulator's Config.json."""
