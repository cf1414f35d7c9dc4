"""A local token issuer with JWKS and OpenID discovery, which issues tokens on loopback without credentials."""
