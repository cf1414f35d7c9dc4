"""The job of three steps as each peer's own documents write it; these modules run in the peers' environment."""
