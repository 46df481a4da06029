# Made by tools/generate_protocol.py from open_inference.proto. Do not edit.
"""Client, servicer and registration of inference.GRPCInferenceService."""

import grpc

from . import open_inference_pb2 as messages

SERVICE = "inference.GRPCInferenceService"


class GRPCInferenceServiceStub:
    """For clients: one callable a method."""

    def __init__(self, channel):
        self.ServerLive = channel.unary_unary(
            "/inference.GRPCInferenceService/ServerLive",
            request_serializer=messages.ServerLiveRequest.SerializeToString,
            response_deserializer=messages.ServerLiveResponse.FromString,
        )
        self.ServerReady = channel.unary_unary(
            "/inference.GRPCInferenceService/ServerReady",
            request_serializer=messages.ServerReadyRequest.SerializeToString,
            response_deserializer=messages.ServerReadyResponse.FromString,
        )
        self.ModelReady = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelReady",
            request_serializer=messages.ModelReadyRequest.SerializeToString,
            response_deserializer=messages.ModelReadyResponse.FromString,
        )
        self.ServerMetadata = channel.unary_unary(
            "/inference.GRPCInferenceService/ServerMetadata",
            request_serializer=messages.ServerMetadataRequest.SerializeToString,
            response_deserializer=messages.ServerMetadataResponse.FromString,
        )
        self.ModelMetadata = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelMetadata",
            request_serializer=messages.ModelMetadataRequest.SerializeToString,
            response_deserializer=messages.ModelMetadataResponse.FromString,
        )
        self.ModelInfer = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            request_serializer=messages.ModelInferRequest.SerializeToString,
            response_deserializer=messages.ModelInferResponse.FromString,
        )
        self.ModelStreamInfer = channel.stream_stream(
            "/inference.GRPCInferenceService/ModelStreamInfer",
            request_serializer=messages.ModelInferRequest.SerializeToString,
            response_deserializer=messages.ModelStreamInferResponse.FromString,
        )
        self.ModelConfig = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelConfig",
            request_serializer=messages.ModelConfigRequest.SerializeToString,
            response_deserializer=messages.ModelConfigResponse.FromString,
        )
        self.ModelStatistics = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelStatistics",
            request_serializer=messages.ModelStatisticsRequest.SerializeToString,
            response_deserializer=messages.ModelStatisticsResponse.FromString,
        )
        self.RepositoryIndex = channel.unary_unary(
            "/inference.GRPCInferenceService/RepositoryIndex",
            request_serializer=messages.RepositoryIndexRequest.SerializeToString,
            response_deserializer=messages.RepositoryIndexResponse.FromString,
        )
        self.RepositoryModelLoad = channel.unary_unary(
            "/inference.GRPCInferenceService/RepositoryModelLoad",
            request_serializer=messages.RepositoryModelLoadRequest.SerializeToString,
            response_deserializer=messages.RepositoryModelLoadResponse.FromString,
        )
        self.RepositoryModelUnload = channel.unary_unary(
            "/inference.GRPCInferenceService/RepositoryModelUnload",
            request_serializer=messages.RepositoryModelUnloadRequest.SerializeToString,
            response_deserializer=messages.RepositoryModelUnloadResponse.FromString,
        )


class GRPCInferenceServiceServicer:
    """For servers: every method says that it is not there."""

    async def ServerLive(self, request, context):
        """ServerLiveRequest to ServerLiveResponse."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "ServerLive is not offered here")

    async def ServerReady(self, request, context):
        """ServerReadyRequest to ServerReadyResponse."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "ServerReady is not offered here")

    async def ModelReady(self, request, context):
        """ModelReadyRequest to ModelReadyResponse."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "ModelReady is not offered here")

    async def ServerMetadata(self, request, context):
        """ServerMetadataRequest to ServerMetadataResponse."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "ServerMetadata is not offered here")

    async def ModelMetadata(self, request, context):
        """ModelMetadataRequest to ModelMetadataResponse."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "ModelMetadata is not offered here")

    async def ModelInfer(self, request, context):
        """ModelInferRequest to ModelInferResponse."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "ModelInfer is not offered here")

    async def ModelStreamInfer(self, request, context):
        """ModelInferRequest to ModelStreamInferResponse."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "ModelStreamInfer is not offered here")

    async def ModelConfig(self, request, context):
        """ModelConfigRequest to ModelConfigResponse."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "ModelConfig is not offered here")

    async def ModelStatistics(self, request, context):
        """ModelStatisticsRequest to ModelStatisticsResponse."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "ModelStatistics is not offered here")

    async def RepositoryIndex(self, request, context):
        """RepositoryIndexRequest to RepositoryIndexResponse."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "RepositoryIndex is not offered here")

    async def RepositoryModelLoad(self, request, context):
        """RepositoryModelLoadRequest to RepositoryModelLoadResponse."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "RepositoryModelLoad is not offered here")

    async def RepositoryModelUnload(self, request, context):
        """RepositoryModelUnloadRequest to RepositoryModelUnloadResponse."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "RepositoryModelUnload is not offered here")


def add_GRPCInferenceServiceServicer_to_server(servicer, server):
    """Registers the servicer's methods."""
    handlers = {
        "ServerLive": grpc.unary_unary_rpc_method_handler(
            servicer.ServerLive,
            request_deserializer=messages.ServerLiveRequest.FromString,
            response_serializer=messages.ServerLiveResponse.SerializeToString,
        ),
        "ServerReady": grpc.unary_unary_rpc_method_handler(
            servicer.ServerReady,
            request_deserializer=messages.ServerReadyRequest.FromString,
            response_serializer=messages.ServerReadyResponse.SerializeToString,
        ),
        "ModelReady": grpc.unary_unary_rpc_method_handler(
            servicer.ModelReady,
            request_deserializer=messages.ModelReadyRequest.FromString,
            response_serializer=messages.ModelReadyResponse.SerializeToString,
        ),
        "ServerMetadata": grpc.unary_unary_rpc_method_handler(
            servicer.ServerMetadata,
            request_deserializer=messages.ServerMetadataRequest.FromString,
            response_serializer=messages.ServerMetadataResponse.SerializeToString,
        ),
        "ModelMetadata": grpc.unary_unary_rpc_method_handler(
            servicer.ModelMetadata,
            request_deserializer=messages.ModelMetadataRequest.FromString,
            response_serializer=messages.ModelMetadataResponse.SerializeToString,
        ),
        "ModelInfer": grpc.unary_unary_rpc_method_handler(
            servicer.ModelInfer,
            request_deserializer=messages.ModelInferRequest.FromString,
            response_serializer=messages.ModelInferResponse.SerializeToString,
        ),
        "ModelStreamInfer": grpc.stream_stream_rpc_method_handler(
            servicer.ModelStreamInfer,
            request_deserializer=messages.ModelInferRequest.FromString,
            response_serializer=messages.ModelStreamInferResponse.SerializeToString,
        ),
        "ModelConfig": grpc.unary_unary_rpc_method_handler(
            servicer.ModelConfig,
            request_deserializer=messages.ModelConfigRequest.FromString,
            response_serializer=messages.ModelConfigResponse.SerializeToString,
        ),
        "ModelStatistics": grpc.unary_unary_rpc_method_handler(
            servicer.ModelStatistics,
            request_deserializer=messages.ModelStatisticsRequest.FromString,
            response_serializer=messages.ModelStatisticsResponse.SerializeToString,
        ),
        "RepositoryIndex": grpc.unary_unary_rpc_method_handler(
            servicer.RepositoryIndex,
            request_deserializer=messages.RepositoryIndexRequest.FromString,
            response_serializer=messages.RepositoryIndexResponse.SerializeToString,
        ),
        "RepositoryModelLoad": grpc.unary_unary_rpc_method_handler(
            servicer.RepositoryModelLoad,
            request_deserializer=messages.RepositoryModelLoadRequest.FromString,
            response_serializer=messages.RepositoryModelLoadResponse.SerializeToString,
        ),
        "RepositoryModelUnload": grpc.unary_unary_rpc_method_handler(
            servicer.RepositoryModelUnload,
            request_deserializer=messages.RepositoryModelUnloadRequest.FromString,
            response_serializer=messages.RepositoryModelUnloadResponse.SerializeToString,
        ),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
