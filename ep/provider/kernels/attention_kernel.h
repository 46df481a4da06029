// What the operators of attention share: their kernels, scratch memory, and what is kept of tokens
// from call to call.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

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
  // [batch, heads, past + fresh, size]. `present`: becomes the whole. An output that nobody asked
  // for is scratch, which lives as long as `kept`.
  Status Append(const OpContext& context, const DeviceTensor& past, const Vectors& fresh,
                size_t output, Scratch& kept, Vectors& present) const;
  Status Append(const OpContext& context, const device::KvAppend& append) const;

  Status Positions(const OpContext& context,
                   const device::Prepared<device::KvPositionsArgs>& call) const {
    return context.Launch(positions_, call);
  }

  // Hides keys that are too far behind their query. `seen`: holds the flags.
  Status Limit(const OpContext& context, const device::KvWindow& window, Scratch& seen,
               device::AttentionTensors& tensors) const;

  // Of so many bytes, on this call's stream. Error: there is no memory.
  Status Take(const OpContext& context, size_t bytes, Scratch& scratch) const;

  // Why not these: vectors of different sizes, heads that cannot be shared.
  static bool Fit(const Vectors& q, const Vectors& k, const Vectors& v) noexcept;

  // How a mask of at most four dimensions, [batch, head, query, key], is read; false: it does not
  // broadcast to these.
  static bool MaskOf(const DeviceTensor& mask, const device::AttentionShape& shape,
                     device::AttentionTensors& tensors);

  // For ReadPadding, in Init only.
  Status FindPadding() { return Find("cast", "i32", "b", "cast", &flags_); }
  // A mask of padding, int32: how many keys each batch has, or [batch, keys] of what is 0 where a
  // key is none. Absent: nothing. `seen`: holds what was made of it.
  Status ReadPadding(const OpContext& context, const DeviceTensor& padding,
                     const device::AttentionShape& shape, Scratch& seen,
                     device::AttentionTensors& tensors) const;

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
  DeviceFunction flags_;
  const char* type_ = "";
  size_t bytes_ = 0;
  bool has_tiles_ = false;
};

}  // namespace tunableop
