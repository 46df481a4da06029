#include "tuner/rates.h"

#include <cstdint>

namespace tunableop {
namespace {

// Units of 1e9 a second out of milliseconds.
double PerNanosecond(double amount, double ms) noexcept {
  return ms > 0.0 ? amount / (ms * 1e6) : 0.0;
}

double Bytes(int64_t rows, int64_t columns, int64_t matrices, DataType type) noexcept {
  return static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(matrices) *
         static_cast<double>(SizeOf(type));
}

bool HasBias(Epilogue epilogue) noexcept {
  return epilogue == Epilogue::kBias || epilogue == Epilogue::kBiasRelu ||
         epilogue == Epilogue::kBiasGelu;
}

}  // namespace

double Gflops(const Problem& problem, double ms) noexcept {
  return PerNanosecond(Flops(problem), ms);
}

double CompulsoryBytes(const Problem& p) noexcept {
  if (p.batch <= 0) return 0.0;
  const auto matrices = [&](int64_t stride) { return stride == 0 ? int64_t{1} : p.batch; };
  double bytes = Bytes(p.m, p.k, matrices(p.stride_a), p.a_type) +
                 Bytes(p.k, p.n, matrices(p.stride_b), p.b_type);
  const double c = Bytes(p.m, p.n, matrices(p.stride_c), p.c_type);
  bytes += p.beta == ScalarClass::kZero ? c : 2.0 * c;
  if (HasBias(p.epilogue)) bytes += Bytes(1, p.n, 1, p.c_type);
  return bytes;
}

double GigabytesPerSecond(const Problem& problem, double ms) noexcept {
  return PerNanosecond(CompulsoryBytes(problem), ms);
}

}  // namespace tunableop
