# Made by tools/generate_protocol.py from health.proto. Do not edit.
"""Messages of grpc.health.v1."""

from google.protobuf import descriptor_pool
from google.protobuf.internal import builder

_POOL = descriptor_pool.DescriptorPool()

DESCRIPTOR = _POOL.AddSerializedFile(
    b'\n0onnxruntime_ep_tunable'
    b'op/serve/wire/health.pro'
    b'to\x12\x0egrpc.health.v1".\n\x12He'
    b'althCheckRequest\x12\x18\n\x07serv'
    b'ice\x18\x01 \x01(\tR\x07service"\xb1\x01\n\x13H'
    b'ealthCheckResponse\x12I\n\x06st'
    b'atus\x18\x01 \x01(\x0e21.grpc.health'
    b'.v1.HealthCheckResponse.'
    b'ServingStatusR\x06status"O\n'
    b'\rServingStatus\x12\x0b\n\x07UNKNOW'
    b'N\x10\x00\x12\x0b\n\x07SERVING\x10\x01\x12\x0f\n\x0bNOT_'
    b'SERVING\x10\x02\x12\x13\n\x0fSERVICE_UNK'
    b'NOWN\x10\x032\\\n\x06Health\x12R\n\x05Chec'
    b'k\x12".grpc.health.v1.Healt'
    b'hCheckRequest\x1a#.grpc.hea'
    b'lth.v1.HealthCheckRespon'
    b'se"\x00b\x06proto3'
)

builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())
builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, "onnxruntime_ep_tunableop.serve.wire.health_pb2", globals())
