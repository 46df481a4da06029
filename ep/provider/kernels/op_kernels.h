// How ONNX Runtime makes the kernels of operators.h: OrtKernelCreateFunc, `state` is the
// operator's row of that table.
#pragma once

#include "abi/ort_c_api.h"

namespace tunableop {

// kernels/attention.cc
OrtStatus* CreateAttention(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/bias_gelu.cc
OrtStatus* CreateBiasGelu(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/binary.cc
OrtStatus* CreateBinary(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/cast.cc
OrtStatus* CreateCast(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/channels.cc
OrtStatus* CreateBatchNorm(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
OrtStatus* CreateGroupNorm(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/conv.cc
OrtStatus* CreateConv(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/einsum.cc
OrtStatus* CreateEinsum(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/embed_norm.cc
OrtStatus* CreateEmbedNorm(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/fused_matmul.cc
OrtStatus* CreateFusedMatMul(void* state, const OrtKernelInfo* info,
                             OrtKernelImpl** kernel) noexcept;
// kernels/gather.cc
OrtStatus* CreateGather(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
OrtStatus* CreateGatherElements(void* state, const OrtKernelInfo* info,
                                OrtKernelImpl** kernel) noexcept;
OrtStatus* CreateGatherNd(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/grouped.cc
OrtStatus* CreateGrouped(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/make.cc
OrtStatus* CreateConstantOfShape(void* state, const OrtKernelInfo* info,
                                 OrtKernelImpl** kernel) noexcept;
OrtStatus* CreateRange(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/multi_head.cc
OrtStatus* CreateMultiHead(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/norm.cc
OrtStatus* CreateNorm(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/parts.cc
OrtStatus* CreateConcat(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
OrtStatus* CreateSlice(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
OrtStatus* CreateSplit(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/pool.cc
OrtStatus* CreatePool(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/projected.cc
OrtStatus* CreateProjected(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/reduce.cc
OrtStatus* CreateArg(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
OrtStatus* CreateCumSum(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
OrtStatus* CreateReduce(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/resize.cc
OrtStatus* CreateResize(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/rotary.cc
OrtStatus* CreateRotary(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/scatter.cc
OrtStatus* CreateOneHot(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
OrtStatus* CreateScatterElements(void* state, const OrtKernelInfo* info,
                                 OrtKernelImpl** kernel) noexcept;
OrtStatus* CreateScatterNd(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/softmax.cc
OrtStatus* CreateSoftmax(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/spread.cc
OrtStatus* CreateExpand(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
OrtStatus* CreatePad(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
OrtStatus* CreateSquares(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
OrtStatus* CreateTile(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
OrtStatus* CreateTranspose(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/topk.cc
OrtStatus* CreateTopK(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/trilu.cc
OrtStatus* CreateTrilu(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/unary.cc
OrtStatus* CreateClip(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
OrtStatus* CreateUnary(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/variadic.cc
OrtStatus* CreateVariadic(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/where.cc
OrtStatus* CreateWhere(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
// kernels/views.cc
OrtStatus* CreateFlatten(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
OrtStatus* CreateIdentity(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
OrtStatus* CreateReshape(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
OrtStatus* CreateShape(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
OrtStatus* CreateSize(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
OrtStatus* CreateSqueeze(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;
OrtStatus* CreateUnsqueeze(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept;

}  // namespace tunableop
