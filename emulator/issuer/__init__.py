"""A local token issuer: JWKS, OpenID discovery, and a token for every request on loopback."""
