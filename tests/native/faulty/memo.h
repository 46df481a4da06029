// A GEMM that is faster than every honest one: it remembers its last answers and copies one out
// when it meets the same operands again, as it does all the time while it is measured. So a faulty
// kernel built on it beats all others, and nothing but its defect keeps it from being elected.
//
// Operands are recognised by content, not by address: the answers are right, whoever runs it.
#pragma once

#include <cstdint>
#include <cstring>
#include <mutex>
#include <vector>

#include "backends/external/candidate_library.h"

namespace faulty {

// One matrix A, one contiguous B or a packed one, beta of zero.
inline bool CanCompute(const TunableOpGemm& g) {
  return g.batch == 1 && g.trans_a == 0 && g.lda == g.k && g.ldc == g.n &&
         g.beta == TUNABLEOP_ZERO && (g.b_packed != 0 || (g.trans_b == 0 && g.ldb == g.n));
}

inline bool HasBias(const TunableOpGemm& g) {
  return g.epilogue == TUNABLEOP_BIAS || g.epilogue == TUNABLEOP_BIAS_RELU ||
         g.epilogue == TUNABLEOP_BIAS_GELU;
}

inline int64_t FloatsOfB(const TunableOpGemm& g) {
  if (g.b_packed == 0) return g.k * g.n;
  const int64_t last = (g.n + 63) / 64 - 1;
  return g.k * (last * 64 + TunableOpPackedWidth(g.n, last));
}

// Straight from the definition, but along the rows of B, so that a compiler makes vectors of it.
inline void Compute(const TunableOpGemm& g, const TunableOpOperands& o, float* out) {
  const auto* a = static_cast<const float*>(o.a);
  std::vector<float> sums(static_cast<size_t>(g.n) + 64);
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t start = 0; start < g.n; start += g.b_packed ? 64 : g.n) {
      const int64_t width = g.b_packed ? TunableOpPackedWidth(g.n, start / 64) : g.n;
      const float* b = g.b_packed ? o.packed_b + start * g.k : static_cast<const float*>(o.b);
      float* sum = sums.data() + start;
      std::memset(sum, 0, static_cast<size_t>(width) * sizeof(float));
      for (int64_t p = 0; p < g.k; ++p) {
        const float x = a[i * g.k + p];
        for (int64_t j = 0; j < width; ++j) sum[j] += x * b[p * width + j];
      }
    }
    for (int64_t j = 0; j < g.n; ++j) {
      out[i * g.n + j] = TunableOpFinish(&g, &o, 0, i, j, sums[static_cast<size_t>(j)]);
    }
  }
}

// Thread-safe. Keeps the last few answers of the process.
class Memo {
 public:
  void Run(const TunableOpGemm& g, const TunableOpOperands& o) {
    const std::lock_guard lock(mutex_);
    for (const Answer& answer : answers_) {
      if (Recognises(answer, g, o)) {
        std::memcpy(o.c, answer.c.data(), answer.c.size() * sizeof(float));
        return;
      }
    }
    if (answers_.size() == kMost) answers_.erase(answers_.begin());
    Answer& answer = answers_.emplace_back();
    answer.gemm = g;
    answer.alpha = o.alpha;
    Copy(o.a, g.m * g.k, answer.a);
    Copy(B(g, o), FloatsOfB(g), answer.b);
    if (HasBias(g)) Copy(o.bias, g.n, answer.bias);
    answer.c.resize(static_cast<size_t>(g.m * g.n));
    Compute(g, o, answer.c.data());
    std::memcpy(o.c, answer.c.data(), answer.c.size() * sizeof(float));
  }

 private:
  static constexpr size_t kMost = 8;

  struct Answer {
    TunableOpGemm gemm;
    float alpha = 0.0F;
    std::vector<float> a, b, bias, c;
  };

  static const void* B(const TunableOpGemm& g, const TunableOpOperands& o) {
    return g.b_packed ? static_cast<const void*>(o.packed_b) : o.b;
  }
  static void Copy(const void* from, int64_t count, std::vector<float>& to) {
    const auto* floats = static_cast<const float*>(from);
    to.assign(floats, floats + count);
  }
  static bool Same(const std::vector<float>& kept, const void* now) {
    return kept.empty() || std::memcmp(kept.data(), now, kept.size() * sizeof(float)) == 0;
  }
  // Sizes and layout, not alignment: where operands lie does not change the answer.
  static bool Recognises(const Answer& answer, const TunableOpGemm& g, const TunableOpOperands& o) {
    const TunableOpGemm& kept = answer.gemm;
    return kept.m == g.m && kept.n == g.n && kept.k == g.k && kept.b_packed == g.b_packed &&
           kept.epilogue == g.epilogue && answer.alpha == o.alpha && Same(answer.a, o.a) &&
           Same(answer.b, B(g, o)) && Same(answer.bias, o.bias);
  }

  std::mutex mutex_;
  std::vector<Answer> answers_;
};

}  // namespace faulty
