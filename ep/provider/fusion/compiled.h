// Groups as ONNX Runtime runs them: what OrtEp::Compile and its counterpart do.
#pragma once

#include <memory>

#include "abi/ort_c_api.h"
#include "gemm/status.h"
#include "provider/gpu/gpu_session.h"
#include "provider/session_state.h"

namespace tunableop {

// The kernel of the group that `graph` is, which ONNX Runtime calls `fused_node`. What comes out
// belongs to ONNX Runtime, until it hands it to ReleaseGroup.
Result<OrtNodeComputeInfo*> CompileGroup(const OrtGraph* graph, const OrtNode* fused_node,
                                         const std::shared_ptr<SessionState>& state,
                                         const std::shared_ptr<GpuSession>& gpu);

void ReleaseGroup(OrtNodeComputeInfo* info) noexcept;

}  // namespace tunableop
