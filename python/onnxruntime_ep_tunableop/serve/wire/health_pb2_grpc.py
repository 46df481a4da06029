# Made by tools/generate_protocol.py from health.proto. Do not edit.
"""Client, servicer and registration of grpc.health.v1.Health."""

import grpc

from . import health_pb2 as messages

SERVICE = "grpc.health.v1.Health"


class HealthStub:
    """For clients: one callable a method."""

    def __init__(self, channel):
        self.Check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=messages.HealthCheckRequest.SerializeToString,
            response_deserializer=messages.HealthCheckResponse.FromString,
        )


class HealthServicer:
    """For servers: every method says that it is not there."""

    async def Check(self, request, context):
        """HealthCheckRequest to HealthCheckResponse."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Check is not offered here")


def add_HealthServicer_to_server(servicer, server):
    """Registers the servicer's methods."""
    handlers = {
        "Check": grpc.unary_unary_rpc_method_handler(
            servicer.Check,
            request_deserializer=messages.HealthCheckRequest.FromString,
            response_serializer=messages.HealthCheckResponse.SerializeToString,
        ),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
