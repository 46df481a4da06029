// Nodes that run as one: how a pattern is described, and what its kernel is told and does.
//
// A pattern is found twice by the same code: in the whole graph, when nodes are claimed, and in the
// graph of the group alone, when ONNX Runtime has its kernel made. So nothing has to be carried
// from one to the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "backends/rtc/kernel_library.h"
#include "gemm/status.h"
#include "provider/fusion/graph_index.h"
#include "provider/fusion/place.h"
#include "provider/gpu/gpu_session.h"
#include "provider/kernels/op_kernel.h"
#include "provider/session_state.h"

namespace tunableop {

struct Fusion;

// Nodes of a GraphIndex that one kernel can run. Every value that they make and that anybody else
// reads is an output of that kernel.
struct Group {
  std::vector<size_t> nodes;        // in any order, the one it was found by among them
  std::vector<ModuleName> modules;  // of ep/kernels that the kernel will ask for
  // Of the nodes, those that would be left to the CPU by themselves, since they compute shapes.
  // Given {}, or g++ warns of aggregates that leave it out.
  std::vector<size_t> shapes = {};  // NOLINT(readability-redundant-member-init)
  // The kernel copies what it needs of constants when it is made: they are no inputs of its calls.
  bool copies_constants = false;
};

// What a kernel is told when it is made: the group as a graph of its own, and where its values are
// among the inputs and outputs of a call.
class FusedInfo {
 public:
  static constexpr size_t kAbsent = SIZE_MAX;

  FusedInfo(const GraphIndex& graph, const NodeView& fused, const Fusion& fusion,
            std::shared_ptr<SessionState> state, std::shared_ptr<GpuSession> gpu) noexcept
      : graph_(graph),
        fused_(fused),
        fusion_(fusion),
        state_(std::move(state)),
        gpu_(std::move(gpu)) {}

  const GraphIndex& graph() const noexcept { return graph_; }
  const Fusion& fusion() const noexcept { return fusion_; }
  const std::shared_ptr<SessionState>& state() const noexcept { return state_; }
  const std::shared_ptr<GpuSession>& gpu() const noexcept { return gpu_; }
  // Of a value by its name; kAbsent: it is none.
  size_t Input(std::string_view value) const noexcept;
  size_t Output(std::string_view value) const noexcept;

 private:
  const GraphIndex& graph_;
  const NodeView& fused_;
  const Fusion& fusion_;
  std::shared_ptr<SessionState> state_;
  std::shared_ptr<GpuSession> gpu_;
};

// The parts of a pattern that a whole graph is an instance of. `Parts`: what `match` finds, with
// nodes(). Nothing: it is none.
template <typename Parts>
std::optional<Parts> MatchWhole(const GraphIndex& graph,
                                std::optional<Parts> (*match)(const GraphIndex&, size_t)) {
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    std::optional<Parts> parts = match(graph, i);
    if (parts && parts->nodes().size() == graph.nodes().size()) return parts;
  }
  return std::nullopt;
}

// One object serves one group; Compute may run on several threads at once.
class FusedKernel {
 public:
  FusedKernel() noexcept = default;
  virtual ~FusedKernel() = default;
  FusedKernel(const FusedKernel&) = delete;
  FusedKernel& operator=(const FusedKernel&) = delete;

  // Once, before any call. `info` is valid during it only. Error: the group is not the pattern that
  // it was claimed for, or a module cannot be compiled.
  virtual Status Init(const FusedInfo& info) = 0;
  // Queues the work and returns; allocates nothing, but for ONNX Runtime's outputs and memory of
  // the session's pool.
  virtual Status Compute(OpContext& context) const = 0;

 protected:
  // In Init only. `t1` may be "".
  static Status Find(const FusedInfo& info, const char* family, const char* t0, const char* t1,
                     const char* entry, DeviceFunction* function);
  // Of Compute: an input and an output, by their places; kAbsent: absent ones.
  static Status Read(const OpContext& context, size_t input, DeviceTensor& tensor);
  static Status Make(const OpContext& context, size_t output, std::span<const int64_t> dims,
                     DeviceTensor& tensor);
  // Of Init: the graph is no instance of the pattern.
  static Status NotThePattern(const FusedInfo& info);
};

// One pattern.
struct Fusion {
  Operator op;  // its name, for errors and explanations ("Add+LayerNormalization")
  // Looks for the pattern of which node `last` is the last one. Pure.
  std::optional<Group> (*match)(const GraphIndex& graph, size_t last);
  std::unique_ptr<FusedKernel> (*make)();
  // Whether its kernel is the better choice there; null: it is everywhere.
  bool (*suits)(const FusionPlace& place) = nullptr;
};

}  // namespace tunableop
