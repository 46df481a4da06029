// A random sequence that is the same on every machine for the same seed (SplitMix64).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace tunableop::lt {

class Random {
 public:
  explicit Random(uint64_t seed) noexcept : state_(seed) {}

  uint64_t Next() noexcept {
    state_ += 0x9E3779B97F4A7C15ULL;
    uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ULL;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBULL;
    return mixed ^ (mixed >> 31);
  }
  // In [0, count); count > 0.
  size_t Below(size_t count) noexcept { return static_cast<size_t>(Next() % count); }
  template <typename T>
  const T& Of(std::span<const T> values) noexcept {
    return values[Below(values.size())];
  }
  template <typename T>
  void Shuffle(std::span<T> values) noexcept {
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[Below(i)]);
  }

 private:
  uint64_t state_;
};

}  // namespace tunableop::lt
