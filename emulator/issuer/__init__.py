"""A local token issuer, with JWKS, OpenID discovery, and a token for every request on loopback."""
