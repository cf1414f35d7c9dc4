"""Incidents of jobs, breakers, services and rows."""
