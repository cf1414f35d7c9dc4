"""What schemathesis cannot know of this API (docs/decisions/0013-what-json-schema-cannot-say.md)."""

import os

import schemathesis

# lines of JSON are sent as the text that they are
schemathesis.serializer.alias("application/x-ndjson", "text/plain")

#: the one tenant of the tokens at hand; unset: they see every tenant
TENANT = os.environ.get("SCHEMATHESIS_TENANT")


@schemathesis.hook
def map_body(context, body):
    """A body gets the tenant of its token: that another one is refused (403) is no matter of schemas."""
    return body | {"tenant_id": TENANT} if TENANT and isinstance(body, dict) and "tenant_id" in body else body


@schemathesis.hook
def filter_headers(context, headers):
    """Schemathesis sends headers in Latin-1, and the host itself refuses what is not UTF-8 by a bare 400."""
    return not headers or all(str(value).isascii() for value in headers.values())
