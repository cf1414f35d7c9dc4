"""A token issuer for a laptop: JWKS, OpenID discovery, and tokens for whoever asks on loopback."""
