"""Who may ask: a bearer token, and TLS with, perhaps, certificates of clients."""

from __future__ import annotations

import hmac
import ssl
from dataclasses import dataclass
from pathlib import Path

from .protocol import Kind, ProtocolError


@dataclass(frozen=True)
class Tls:
    """Files in PEM. `client_ca`: clients must show a certificate that it signed."""

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def context(self) -> ssl.SSLContext:
        """For REST. Raises OSError or ValueError, naming the file, where one is missing or does not fit."""
        for path in (self.certificate, self.key, self.client_ca):
            if path is not None:
                path.open("rb").close()  # ssl's errors name no file
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key, _no_password)
        except ssl.SSLError as error:
            raise ValueError(
                "expected a certificate and its key in PEM, "
                f"found '{self.certificate}' and '{self.key}': {error}"
            ) from error
        if self.client_ca is not None:
            try:
                context.load_verify_locations(self.client_ca)
            except ssl.SSLError as error:
                raise ValueError(
                    f"expected certificates in PEM, found '{self.client_ca}': {error}"
                ) from error
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def _no_password() -> str:
    # Without this, ssl would ask on the terminal, and wait.
    raise ValueError("the key is encrypted: expected one that is not")


def check_token(expected: str | None, header: str | None) -> None:
    """`header`: the value of `authorization`. Takes as long for a wrong token as for a right one."""
    if expected is None:
        return
    scheme, _, token = (header or "").partition(" ")
    # As bytes: compare_digest takes no text beyond ASCII.
    right = hmac.compare_digest(token.strip().encode(errors="replace"), expected.encode())
    if scheme.lower() != "bearer" or not right:
        found = "none" if header is None else "another"
        raise ProtocolError(
            Kind.UNAUTHENTICATED,
            f"expected the header 'authorization: Bearer TOKEN' with this server's token, found {found}",
        )
