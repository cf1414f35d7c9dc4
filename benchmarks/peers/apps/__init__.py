"""The 3-step job in the form of each peer's documentation. These modules run in the peers' environment."""
