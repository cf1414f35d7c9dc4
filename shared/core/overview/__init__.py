"""The overview of a deployment: counts by minute, and its problems in words."""
