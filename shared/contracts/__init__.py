"""The messages and HTTP bodies that others see (pydantic only, no Azure)."""
