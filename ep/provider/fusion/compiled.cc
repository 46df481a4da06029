#include "provider/fusion/compiled.h"

#include <string>
#include <utility>

#include "provider/fusion/groups.h"
#include "provider/guard.h"
#include "provider/happens_before.h"
#include "provider/ort_runtime.h"

namespace tunableop {
namespace {

class CompiledGroup final : public OrtNodeComputeInfo {
 public:
  CompiledGroup(std::unique_ptr<FusedKernel> kernel, const Fusion& fusion,
                std::shared_ptr<GpuSession> gpu) noexcept
      : OrtNodeComputeInfo{}, kernel_(std::move(kernel)), fusion_(fusion), gpu_(std::move(gpu)) {
    ort_version_supported = Ort().version;
    CreateState = &CreateStateImpl;
    Compute = &ComputeImpl;
    ReleaseState = &ReleaseStateImpl;
    gpu_->AddKernel();
  }
  ~CompiledGroup() { gpu_->RemoveKernel(); }
  CompiledGroup(const CompiledGroup&) = delete;
  CompiledGroup& operator=(const CompiledGroup&) = delete;

 private:
  // The kernel has no state but itself.
  static OrtStatus* CreateStateImpl(OrtNodeComputeInfo* self, OrtNodeComputeContext* /*context*/,
                                    void** state) noexcept {
    *state = self;
    HappensBefore(self);
    return nullptr;
  }
  static void ReleaseStateImpl(OrtNodeComputeInfo* /*self*/, void* /*state*/) noexcept {}

  static OrtStatus* ComputeImpl(OrtNodeComputeInfo* self, void* /*state*/,
                                OrtKernelContext* context) noexcept {
    HappensAfter(self);  // what made it
    const auto& group = *static_cast<CompiledGroup*>(self);
    OrtStatus* status = Guard([&]() -> Status {
      Result<const DeviceQueue*> queue = group.gpu_->QueueOf(context);
      if (!queue.ok()) return queue.TakeStatus();
      OpContext call(context, *group.gpu_, *queue.value(), group.fusion_.op);
      return group.kernel_->Compute(call);
    });
    group.gpu_->CountCall(status == nullptr);
    HappensBefore(&self->ort_version_supported);
    return status;
  }

  const std::unique_ptr<FusedKernel> kernel_;
  const Fusion& fusion_;
  const std::shared_ptr<GpuSession> gpu_;
};

}  // namespace

Result<OrtNodeComputeInfo*> CompileGroup(const OrtGraph* graph, const OrtNode* fused_node,
                                         const std::shared_ptr<SessionState>& state,
                                         const std::shared_ptr<GpuSession>& gpu) {
  Result<std::vector<NodeView>> nodes = ReadNodes(graph);
  if (!nodes.ok()) return nodes.TakeStatus();
  Result<GraphIndex> index = GraphIndex::Of(graph, nodes.value());
  if (!index.ok()) return index.TakeStatus();
  Result<NodeView> fused = NodeView::Read(fused_node);
  if (!fused.ok()) return fused.TakeStatus();
  const Fusion* fusion =
      FusionOf(index.value(), {gpu->device().info().arch, state->options().precision});
  if (fusion == nullptr) {
    return Status(StatusCode::kInternal, "ONNX Runtime asks for a kernel of the nodes in '" +
                                             std::string(fused.value().name()) +
                                             "', which no pattern here takes as one");
  }
  std::unique_ptr<FusedKernel> kernel = fusion->make();
  TUNABLEOP_RETURN_IF_ERROR(
      kernel->Init(FusedInfo(index.value(), fused.value(), *fusion, state, gpu)));
  return static_cast<OrtNodeComputeInfo*>(new CompiledGroup(std::move(kernel), *fusion, gpu));
}

void ReleaseGroup(OrtNodeComputeInfo* info) noexcept {
  if (info == nullptr) return;
  HappensAfter(&info->ort_version_supported);  // every Compute
  delete static_cast<CompiledGroup*>(info);
}

}  // namespace tunableop
