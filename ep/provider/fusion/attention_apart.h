// Attention as products, a softmax and copies: what its nodes are by themselves, but that heads are
// reached where they lie, and copied only where a product cannot.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "gemm/backend.h"
#include "gemm/problem.h"
#include "gemm/status.h"
#include "kernels/attention_launch.h"
#include "kernels/shapes.h"
#include "provider/fusion/fusion.h"
#include "provider/kernels/scratch.h"

namespace tunableop {

// Thread-safe once made.
class AttentionApart {
 public:
  // `mask`: its type; undefined: there is none.
  Status Init(const FusedInfo& info, ONNXTensorElementDataType type,
              ONNXTensorElementDataType mask);
  // The modules that it asks for.
  static std::vector<ModuleName> Modules(ONNXTensorElementDataType type,
                                         ONNXTensorElementDataType mask);

  DataType type() const noexcept { return type_; }
  // What Run takes of the card's memory, at most.
  size_t Bytes(const device::AttentionShape& shape) const noexcept;

  // Vectors of q, k, v and the result are contiguous; `tensors.mask` is of `mask_dims`, without
  // gaps. There are keys, and the result has elements. Queues the work.
  Status Run(const OpContext& context, const device::AttentionTensors& tensors,
             const device::AttentionShape& shape, device::DimsView mask_dims) const;

 private:
  // Matrices of the heads of all batches, in elements: to the next batch, head and row. 0: there is
  // one for all.
  struct Heads {
    void* data = nullptr;
    int64_t batch = 0;
    int64_t head = 0;
    int64_t row = 0;
  };
  struct Batches {
    int64_t batches;
    int64_t heads;
  };

  static Heads WithoutGaps(void* data, const Batches& of, int64_t rows, int64_t columns) noexcept;
  Status Take(const OpContext& context, int64_t elements, Scratch& scratch) const;
  Status Copy(const OpContext& context, const Heads& from, const Heads& to, const Batches& of,
              int64_t rows, int64_t columns) const;
  // Copies it where its items are not at equal distances; `kept` holds the copy.
  Status Even(const OpContext& context, const Batches& of, int64_t rows, int64_t columns,
              Heads& heads, Scratch& kept) const;
  // `problem`: of one item.
  Status Multiply(const OpContext& context, Problem problem, float alpha, const Batches& of,
                  const Heads& a, const Heads& b, const Heads& c, GemmNode& node) const;
  Status RunItems(const OpContext& context, Problem problem, float alpha, const Heads& a,
                  const Heads& b, const Heads& c, int64_t items, GemmNode& node) const;

  std::shared_ptr<SessionState> state_;
  std::shared_ptr<GpuSession> gpu_;
  std::shared_ptr<GemmNode> scores_;
  std::shared_ptr<GemmNode> sums_;
  DeviceFunction softmax_;
  DeviceFunction copy_;
  DataType type_ = DataType::kFloat32;
  size_t bytes_ = 0;
  size_t mask_bytes_ = 0;
};

}  // namespace tunableop
