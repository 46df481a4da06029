"""The messages and services that travel. All but the .proto files is made by tools/generate_protocol.py.

The messages live in a descriptor pool of their own: other packages (tritonclient, kserve) put messages of the
same names into protobuf's default pool, and one pool takes a name once. Any protobuf from 4.25 to 7 will do.
"""

from __future__ import annotations
