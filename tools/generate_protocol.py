"""Makes the Python modules of the protocols that travel: `*_pb2.py`, `*_pb2.pyi` and `*_pb2_grpc.py`.

    python tools/generate_protocol.py [--check]

Not with protoc's own modules: those put their messages into protobuf's default pool, where tritonclient's of
the same names are, and refuse every protobuf that is older than the protoc that made them. Needs grpcio-tools
of the version that pyproject.toml names: another one may write the types otherwise.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

from google.protobuf import descriptor_pb2
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent / "python"
FOLDER = "onnxruntime_ep_tunableop/serve/wire"
PROTOCOLS = ("open_inference", "health")

_MADE = "# Made by tools/generate_protocol.py from {name}.proto. Do not edit.\n"

_MESSAGES = '''{made}"""Messages of {package}."""

from google.protobuf import descriptor_pool
from google.protobuf.internal import builder

_POOL = descriptor_pool.DescriptorPool()

DESCRIPTOR = _POOL.AddSerializedFile(
{serialized}
)

builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())
builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, "{module}", globals())
'''

_SERVICE = '''{made}"""Client, servicer and registration of {service}."""

import grpc

from . import {name}_pb2 as messages

SERVICE = "{service}"


class {short}Stub:
    """For clients: one callable a method."""

    def __init__(self, channel):
{stubs}


class {short}Servicer:
    """For servers: every method says that it is not there."""

{methods}


def add_{short}Servicer_to_server(servicer, server):
    """Registers the servicer's methods."""
    handlers = {{
{handlers}
    }}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
'''


def generate() -> dict[Path, str]:
    """What each file is to hold; nothing is written."""
    made: dict[Path, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in PROTOCOLS:
            described = _described(name, Path(folder))
            made[ROOT / FOLDER / f"{name}_pb2.py"] = _messages(name, described)
            # What protoc writes is for a descriptor pool of any kind.
            types = (Path(folder) / FOLDER / f"{name}_pb2.pyi").read_text()
            made[ROOT / FOLDER / f"{name}_pb2.pyi"] = _MADE.format(name=name) + types
            made[ROOT / FOLDER / f"{name}_pb2_grpc.py"] = _service(name, described)
    return made


def _described(name: str, folder: Path) -> descriptor_pb2.FileDescriptorProto:
    described = folder / f"{name}.bin"
    arguments = ["protoc", f"-I{ROOT}", f"--descriptor_set_out={described}", f"--pyi_out={folder}"]
    if protoc.main([*arguments, f"{FOLDER}/{name}.proto"]) != 0:
        raise RuntimeError(f"protoc failed on {name}.proto")
    files = descriptor_pb2.FileDescriptorSet.FromString(described.read_bytes())
    return files.file[0]


def _messages(name: str, described: descriptor_pb2.FileDescriptorProto) -> str:
    raw = described.SerializeToString(deterministic=True)
    lines = [f"    {raw[at : at + 24]!r}" for at in range(0, len(raw), 24)]
    return _MESSAGES.format(
        made=_MADE.format(name=name),
        package=described.package,
        serialized="\n".join(lines),
        module=f"{FOLDER.replace('/', '.')}.{name}_pb2",
    )


def _service(name: str, described: descriptor_pb2.FileDescriptorProto) -> str:
    (service,) = described.service
    full = f"{described.package}.{service.name}"
    stubs: list[str] = []
    methods: list[str] = []
    handlers: list[str] = []
    for method in service.method:
        kind = "stream_stream" if method.client_streaming else "unary_unary"
        asked, answered = (re.sub(r".*\.", "", text) for text in (method.input_type, method.output_type))
        stubs.append(
            f"        self.{method.name} = channel.{kind}(\n"
            f'            "/{full}/{method.name}",\n'
            f"            request_serializer=messages.{asked}.SerializeToString,\n"
            f"            response_deserializer=messages.{answered}.FromString,\n"
            f"        )"
        )
        methods.append(
            f"    async def {method.name}(self, request, context):\n"
            f'        """{asked} to {answered}."""\n'
            f'        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "{method.name} is not offered here")'
        )
        handlers.append(
            f'        "{method.name}": grpc.{kind}_rpc_method_handler(\n'
            f"            servicer.{method.name},\n"
            f"            request_deserializer=messages.{asked}.FromString,\n"
            f"            response_serializer=messages.{answered}.SerializeToString,\n"
            f"        ),"
        )
    return _SERVICE.format(
        made=_MADE.format(name=name),
        name=name,
        service=full,
        short=service.name,
        stubs="\n".join(stubs),
        methods="\n\n".join(methods),
        handlers="\n".join(handlers),
    )


def main() -> int:
    """Writes the files, or says which are not current."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit code 1 if a file is not current"
    )
    check = parser.parse_args().check
    made = generate()
    old = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    for path in old:
        print(f"{path}: {'not current' if check else 'written'}")
        if not check:
            path.write_text(made[path])
    return 1 if check and old else 0


if __name__ == "__main__":
    sys.exit(main())
