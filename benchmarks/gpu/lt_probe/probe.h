// What the parts of lt_probe share: the card, its library, problems. Any failure ends the program.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/lt/backend.h"
#include "backends/lt/cuda_kernels.h"
#include "gemm/device_memory.h"
#include "gemm/device_queue.h"

namespace tunableop::probe {

using Clock = std::chrono::steady_clock;
using V = lt::CudaTraits;
using Core = lt::Core<V>;

inline double Ns(Clock::time_point since) {
  return std::chrono::duration<double, std::nano>(Clock::now() - since).count();
}

inline void Must(const Status& status, const char* what) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", what, status.c_str());
  std::exit(1);
}
template <typename T>
T Must(Result<T> result, const char* what) {
  if (!result.ok()) Must(result.status(), what);
  return std::move(result).value();
}

struct Shape {
  std::string name;
  int64_t batch = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool b_constant = true;
};

std::vector<Shape> ReadShapes(const char* path);

struct Kind {
  const char* name;
  DataType type;
  Precision precision;
};
inline constexpr Kind kKinds[] = {{"fp32", DataType::kFloat32, Precision::kExact},
                                  {"tf32", DataType::kFloat32, Precision::kTf32},
                                  {"fp16", DataType::kFloat16, Precision::kExact},
                                  {"bf16", DataType::kBFloat16, Precision::kExact},
                                  {"fp64", DataType::kFloat64, Precision::kExact}};

// Dense operands.
Problem MakeProblem(const Shape& shape, const Kind& kind);

struct Card {
  std::shared_ptr<const Device> device;
  std::shared_ptr<const Backend> backend;
  std::shared_ptr<Core> core;
  lt::CudaKernels kernels;
  DeviceStream stream;
  std::unique_ptr<DeviceQueue> queue;
};

// The first NVIDIA card.
Card OpenCard();

void Heuristics(const Card& card, const std::vector<Shape>& shapes);
void Numerics(const Card& card);
void Exploring(const Card& card, const std::vector<Shape>& shapes);
void HostCost(const Card& card);

}  // namespace tunableop::probe
