"""Shared parts of HTTP triggers: registration, responses, problems, parameters, pages."""
