"""Azure Service Bus for development and tests: AMQP 1.0 for the SDKs, configured by the official emulator's Config.json."""
