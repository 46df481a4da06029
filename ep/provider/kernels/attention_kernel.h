// What the operators of attention share: their kernels, scratch memory, and what is kept of tokens
// from call to call.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "kernels/attention_bias_launch.h"
#include "kernels/attention_launch.h"
#include "kernels/kv_cache_launch.h"
#include "provider/kernels/op_kernel.h"
#include "provider/kernels/scratch.h"

namespace tunableop {

// Queries, keys or values: vectors of `size` numbers, and where they are.
struct Vectors {
  const void* data = nullptr;
  int64_t batches = 0;
  int64_t tokens = 0;
  int64_t heads = 0;
  int64_t size = 0;
  device::AttentionStrides at{};
};

// [batch, token, heads * size]. Nothing: it is not that.
std::optional<Vectors> JoinedHeads(const DeviceTensor& tensor, int64_t heads);
// [batch, heads, token, size]. Nothing: it is not that.
std::optional<Vectors> SeparateHeads(const DeviceTensor& tensor);

class AttentionKernel : public OpKernel {
 protected:
  // `size`: numbers of a head, as far as the model says it; 0: not.
  Status FindKernels(const OpInfo& info, int64_t size);

  device::AttentionTensor TensorOf(const Vectors& of) const noexcept { return {of.data, of.at}; }

  // Queues the attention; `tensors.out` has elements. With no keys there is nothing but zeros.
  Status Attend(const OpContext& context, const device::AttentionTensors& tensors,
                const device::AttentionShape& shape) const;

  // What was kept of each batch (`past`, absent: nothing) and behind it `fresh`, in an output of
  // [batch, heads, append.tokens, size]. `append`: how much of each batch stays. `present`: becomes
  // the whole. An output that nobody asked for is scratch, which lives as long as `kept`.
  Status Append(const OpContext& context, const DeviceTensor& past, const Vectors& fresh,
                size_t output, device::KvAppend append, Scratch& kept, Vectors& present) const;
  // All of the past, and no more room than is needed.
  Status Append(const OpContext& context, const DeviceTensor& past, const Vectors& fresh,
                size_t output, Scratch& kept, Vectors& present) const;

  Status Positions(const OpContext& context,
                   const device::Prepared<device::KvPositionsArgs>& call) const {
    return context.Launch(positions_, call);
  }

  // Hides keys that are too far behind their query. `seen`: holds the flags.
  Status Limit(const OpContext& context, const device::KvWindow& window, Scratch& seen,
               device::AttentionTensors& tensors) const;

  // Of so many bytes, on this call's stream. Error: there is no memory.
  Status Take(const OpContext& context, size_t bytes, Scratch& scratch) const;

  // False: queries and keys of different sizes, heads that cannot be shared.
  static bool Fit(const Vectors& q, const Vectors& k, const Vectors& v) noexcept;

  // How a mask of at most four dimensions, [batch, head, query, key], is read; false: it does not
  // broadcast to these.
  static bool MaskOf(const DeviceTensor& mask, const device::AttentionShape& shape,
                     device::AttentionTensors& tensors);

  // For ReadMasks of com.microsoft, in Init only: where the node has a mask of integers.
  Status FindMasks(const OpInfo& info, size_t mask);
  // What the operators of com.microsoft have beside each other: a mask of integers (how many keys
  // each batch has, [batch] or [3 * batch + 2]; where they end and begin, [2 * batch]; which of
  // them count, [batch, keys] or [batch, queries, keys]) and numbers that are added to scores.
  // Either may be absent. `made`: holds what was made of both.
  Status ReadMasks(const OpContext& context, const DeviceTensor& mask, const DeviceTensor& added,
                   const device::AttentionShape& shape, Scratch& made,
                   device::AttentionTensors& tensors) const;

  // The same for causal attention whose last query sees every key, as ONNX Runtime has it on the
  // CPU: it matters where there are more fresh keys than queries.
  Status AttendLastToAll(const OpContext& context, device::AttentionTensors tensors,
                         device::AttentionShape shape) const;

  const char* type() const noexcept { return type_; }
  size_t bytes() const noexcept { return bytes_; }

 private:
  DeviceFunction plain_;
  DeviceFunction rows_;  // on tensor cores
  DeviceFunction keys_;
  DeviceFunction merge_;
  DeviceFunction append_;
  DeviceFunction positions_;
  DeviceFunction window_;
  DeviceFunction bias_;
  float fill_ = 0;  // of a key that does not count
  const char* type_ = "";
  size_t bytes_ = 0;
  bool has_tiles_ = false;
};

}  // namespace tunableop
