"""Whether the server in this container is ready (exit code 0, else 1 and the reason): images have no curl."""

from __future__ import annotations

import os
import ssl
import sys
import urllib.error
import urllib.request

#: Where to ask, for a server that is told another port, or TLS (https://...).
VARIABLE = "TUNABLEOP_HEALTH_URL"
DEFAULT = "http://127.0.0.1:8000/v2/health/ready"
_SECONDS = 4.0


def main() -> int:
    """Asks once."""
    url = os.environ.get(VARIABLE) or DEFAULT
    # The certificate is the server's own and names no loopback address; nothing but this container is asked.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    try:
        with opener.open(url, timeout=_SECONDS):
            return 0
    except (OSError, ValueError) as error:  # urllib's errors are OSErrors
        print(f"{url}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
