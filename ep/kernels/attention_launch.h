// How the kernels of attention are called.
#pragma once

#include <limits>

#include "kernels/attention_args.h"
#include "kernels/shapes.h"

namespace tunableop::device {

// A tensor of vectors; a vector is contiguous, and where they begin is up to the strides.
struct AttentionTensor {
  const void* data = nullptr;
  AttentionStrides at{};
};

// Of numbers of the tensors' type that are added to scores, or of bytes: a score that is not kept
// is replaced by `fill`.
enum class AttentionMask : uint8_t { kAdded, kKeepsTrue, kKeepsFalse };

struct AttentionTensors {
  AttentionTensor q;
  AttentionTensor k;
  AttentionTensor v;
  int64_t k_step = 1;     // from one number of a key to the next: keys may be columns
  AttentionTensor mask;   // data null: none; strides of 0 broadcast
  int64_t mask_step = 1;  // from one key's to the next, or 0
  AttentionMask mask_is = AttentionMask::kAdded;
  float fill = -std::numeric_limits<float>::infinity();  // where flags say so
  const int32_t* lengths = nullptr;
  int32_t length_more = 0;
  bool none_is_all = false;  // a length of 0 stands for all keys
  // A score of each head (null: 0) beside those of keys, which takes its share and adds nothing.
  bool has_sinks = false;
  const void* sinks = nullptr;
  void* out = nullptr;
  AttentionStrides out_at{};
};

struct AttentionShape {
  int64_t batches = 1;
  int64_t heads = 1;     // of q
  int64_t kv_heads = 1;  // divides `heads`
  int64_t queries = 1;
  int64_t keys = 1;
  int64_t size = 0;        // numbers of a vector
  int64_t value_size = 0;  // of those of v and out; 0: the same
  float scale = 1.0F;
  float cap = 0.0F;  // scores stay within that, softly, before masks; 0: none
  bool causal = false;
  bool past_by_end = false;
  int64_t past = 0;
  bool zeros_for_nothing = false;  // rows in which no key counts are 0, not NaN
};

// The strides of [batch, token, head, size], or, `heads_outside`, of [batch, head, token, size].
AttentionStrides StridesOf(int64_t tokens, int64_t heads, int64_t size,
                           bool heads_outside) noexcept;

// The family whose kernels attention_rows and attention_keys are for such vectors on tensor cores:
// "attention_64". Null: there is none; "attention" has one for all. `tf32`: floats may be rounded
// to that.
const char* AttentionTilesFamily(std::string_view type, int64_t size, bool tf32 = false) noexcept;

// Whether a card has the tensor cores that these families are for: "sm_80" and newer.
bool AttentionTilesRunOn(std::string_view arch) noexcept;

enum class AttentionEntry : uint8_t { kAny, kRows, kKeys };
// "attention", "attention_rows", "attention_keys".
const char* NameOf(AttentionEntry entry) noexcept;

// One call, or two, the second after the first.
struct AttentionCall {
  Prepared<AttentionArgs> call;
  AttentionEntry entry = AttentionEntry::kAny;
  size_t scratch_bytes = 0;            // 0: there is no second call
  Prepared<AttentionMergeArgs> merge;  // by attention_merge

  // `scratch`: of scratch_bytes, aligned to 16, until the calls are done.
  void SetScratch(void* scratch) noexcept {
    call.args.partial = static_cast<float*>(scratch);
    merge.args.partial = call.args.partial;
  }
};

struct AttentionMeans {
  bool tiles = false;    // the kernels of AttentionTilesFamily are there, for these vectors
  bool scratch = false;  // the caller can give scratch memory
};

// `type`: of everything but the mask. Nothing: vectors of more than kMostAttentionSize numbers,
// heads that cannot be shared, or sizes of 2^30 and more.
inline constexpr int64_t kMostAttentionSize = 512;
std::optional<AttentionCall> PrepareAttention(const AttentionTensors& tensors,
                                              const AttentionShape& shape, std::string_view type,
                                              const AttentionMeans& means) noexcept;

}  // namespace tunableop::device
