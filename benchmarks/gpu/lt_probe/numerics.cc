#include "lt_probe/probe.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tunableop::probe {
namespace {

uint16_t ToBf16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}
float FromBf16(uint16_t value) {
  const uint32_t bits = static_cast<uint32_t>(value) << 16;
  float result = 0;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

// Numbers as a card stores them, and as they are.
struct Numbers {
  std::vector<char> stored;
  std::vector<double> exact;

  Numbers(size_t count, DataType type, uint32_t seed) : stored(count * SizeOf(type)), exact(count) {
    for (size_t i = 0; i < count; ++i) {
      seed = seed * 1664525U + 1013904223U;
      Put(i, type, static_cast<float>(static_cast<int32_t>(seed)) / 2147483648.0F);
    }
  }
  void Put(size_t i, DataType type, float value) {
    char* at = stored.data() + i * SizeOf(type);
    switch (type) {
      case DataType::kFloat32:
        std::memcpy(at, &value, sizeof(value));
        exact[i] = value;
        return;
      case DataType::kFloat64:
        exact[i] = value;
        std::memcpy(at, &exact[i], sizeof(double));
        return;
      case DataType::kFloat16: {
        const auto half = static_cast<_Float16>(value);
        std::memcpy(at, &half, sizeof(half));
        exact[i] = static_cast<double>(half);
        return;
      }
      case DataType::kBFloat16: {
        const uint16_t half = ToBf16(value);
        std::memcpy(at, &half, sizeof(half));
        exact[i] = FromBf16(half);
      }
    }
  }
  static double Get(const char* at, DataType type) {
    switch (type) {
      case DataType::kFloat64: {
        double value = 0;
        std::memcpy(&value, at, sizeof(value));
        return value;
      }
      case DataType::kFloat16: {
        _Float16 value = 0;
        std::memcpy(&value, at, sizeof(value));
        return static_cast<double>(value);
      }
      case DataType::kBFloat16: {
        uint16_t value = 0;
        std::memcpy(&value, at, sizeof(value));
        return FromBf16(value);
      }
      case DataType::kFloat32:
        break;
    }
    float value = 0;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
};

double UnitOf(const Kind& kind) {
  if (kind.precision == Precision::kTf32) return std::ldexp(1.0, -11);
  switch (kind.type) {
    case DataType::kFloat16:
      return std::ldexp(1.0, -11);
    case DataType::kBFloat16:
      return std::ldexp(1.0, -8);
    case DataType::kFloat64:
      return std::ldexp(1.0, -53);
    case DataType::kFloat32:
      break;
  }
  return std::ldexp(1.0, -24);
}

DeviceBuffer Upload(const Card& card, const std::vector<char>& bytes) {
  DeviceBuffer buffer = Must(DeviceBuffer::Create(card.device, bytes.size()), "memory");
  Must(card.device->Copy(buffer.data(), bytes.data(), bytes.size(), CopyKind::kHostToDevice,
                         card.queue->stream()),
       "upload");
  return buffer;
}

// The worst error of every kernel for one problem, as a multiple of what is allowed.
void Check(const Card& card, Problem p, const Kind& kind, float alpha, float beta) {
  p.alpha = ClassOf(alpha);
  p.beta = ClassOf(beta);
  const auto items = static_cast<size_t>(p.batch);
  const auto m = static_cast<size_t>(p.m);
  const auto n = static_cast<size_t>(p.n);
  const auto k = static_cast<size_t>(p.k);
  const Numbers a((p.stride_a != 0 ? items : 1) * m * k, p.a_type, 1);
  const Numbers b((p.stride_b != 0 ? items : 1) * k * n, p.a_type, 2);
  const Numbers c(items * m * n, p.a_type, 3);
  const Numbers bias(n, p.a_type, 4);
  // The transposed copy of B.
  Numbers turned(b.exact.size(), p.a_type, 5);
  for (size_t i = 0; i < (p.stride_b != 0 ? items : 1) && p.trans_b == 0; ++i) {
    for (size_t r = 0; r < k; ++r) {
      for (size_t j = 0; j < n; ++j) {
        turned.Put(i * k * n + j * k + r, p.a_type,
                   static_cast<float>(b.exact[i * k * n + r * n + j]));
      }
    }
  }
  std::vector<double> want(items * m * n);
  std::vector<double> allowed(items * m * n);
  const double accumulate = std::max(
      std::ldexp(1.0, -24) * (kind.type == DataType::kFloat64 ? 0.0 : 1.0),
      kind.type == DataType::kFloat32 || kind.type == DataType::kFloat64 ? UnitOf(kind) : 0.0);
  const bool has_bias = lt::HasBias(p.epilogue);
  const bool relu = p.epilogue == Epilogue::kRelu || p.epilogue == Epilogue::kBiasRelu;
  for (size_t i = 0; i < items; ++i) {
    const double* ai = a.exact.data() + (p.stride_a != 0 ? i * m * k : 0);
    const double* bi = b.exact.data() + (p.stride_b != 0 ? i * k * n : 0);
    for (size_t r = 0; r < m; ++r) {
      for (size_t j = 0; j < n; ++j) {
        double sum = 0;
        double scale = 0;
        for (size_t x = 0; x < k; ++x) {
          const double product = (p.trans_a != 0 ? ai[x * m + r] : ai[r * k + x]) *
                                 (p.trans_b != 0 ? bi[j * k + x] : bi[x * n + j]);
          sum += product;
          scale += std::abs(product);
        }
        const size_t at = (i * m + r) * n + j;
        double value = alpha * sum;
        scale *= std::abs(alpha);
        if (beta != 0) {
          value += beta * c.exact[at];
          scale += std::abs(beta * c.exact[at]);
        }
        if (has_bias) {
          value += bias.exact[j];
          scale += std::abs(bias.exact[j]);
        }
        if (relu) value = std::max(value, 0.0);
        want[at] = value;
        allowed[at] = 2 * accumulate * (std::sqrt(static_cast<double>(k)) + 8) * scale +
                      UnitOf(kind) * std::abs(value) + 1e-7 * (kind.type == DataType::kFloat16);
      }
    }
  }
  const DeviceBuffer device_a = Upload(card, a.stored);
  const DeviceBuffer device_b = Upload(card, b.stored);
  const DeviceBuffer device_turned = Upload(card, turned.stored);
  const DeviceBuffer device_bias = Upload(card, bias.stored);
  QueueExecutor executor(*card.queue);
  double worst = 0;
  std::string worst_name;
  size_t count = 0;
  for (const Candidate& candidate : card.backend->Candidates(p, CandidateScope::kAll)) {
    const auto plan = Must(card.backend->Prepare(p, candidate), candidate.kernel.c_str());
    const DeviceBuffer device_c = Upload(card, c.stored);
    Operands operands;
    operands.a = device_a.data();
    operands.b = device_b.data();
    operands.b_transposed = device_turned.data();
    operands.c = device_c.data();
    operands.bias = device_bias.data();
    operands.alpha = alpha;
    operands.beta = beta;
    const Status status = plan->Run(operands, executor);
    if (!status.ok()) {
      std::printf("numerics %s %s: %s  WRONG %s\n", kind.name, ToString(p).c_str(),
                  candidate.kernel.c_str(), status.c_str());
      continue;
    }
    std::vector<char> got(c.stored.size());
    Must(card.device->Copy(got.data(), device_c.data(), got.size(), CopyKind::kDeviceToHost,
                           card.queue->stream()),
         "download");
    Must(card.device->Synchronize(card.queue->stream()), candidate.kernel.c_str());
    ++count;
    for (size_t at = 0; at < want.size(); ++at) {
      const double value = Numbers::Get(got.data() + at * SizeOf(p.a_type), p.a_type);
      const double off = std::abs(value - want[at]) / allowed[at];
      if (off > worst || std::isnan(off)) {
        worst = std::isnan(off) ? INFINITY : off;
        worst_name = candidate.kernel;
      }
    }
  }
  std::printf("numerics %s %s alpha=%g beta=%g: %zu kernels, worst %.2f of what is allowed%s%s\n",
              kind.name, ToString(p).c_str(), static_cast<double>(alpha), static_cast<double>(beta),
              count, worst, worst > 1 || count == 0 ? "  WRONG " : "",
              worst > 1 ? worst_name.c_str() : "");
}

}  // namespace

void Numerics(const Card& card) {
  for (const Kind& kind : kKinds) {
    for (const Epilogue epilogue :
         {Epilogue::kNone, Epilogue::kBias, Epilogue::kRelu, Epilogue::kBiasRelu}) {
      if (kind.type == DataType::kFloat64 && epilogue != Epilogue::kNone) continue;
      Problem p = MakeProblem({"", 1, 48, 96, 128, true}, kind);
      p.epilogue = epilogue;
      Check(card, p, kind, 1, 0);
      Check(card, p, kind, -0.5F, 2);
    }
    Problem odd = MakeProblem({"", 1, 7, 13, 301, false}, kind);
    odd.align_a = odd.align_b = odd.align_c = 3;
    Check(card, odd, kind, 1, 0);
    Problem turned = MakeProblem({"", 3, 33, 40, 72, false}, kind);
    turned.trans_a = turned.trans_b = 1;
    turned.lda = turned.m;
    turned.ldb = turned.k;
    Check(card, turned, kind, 1, 1);
    Problem shared = MakeProblem({"", 5, 24, 56, 64, true}, kind);
    shared.stride_b = 0;
    Check(card, shared, kind, 1, 0);
    shared = MakeProblem({"", 5, 24, 56, 64, false}, kind);
    shared.stride_a = 0;
    Check(card, shared, kind, 1, 0);
  }
}

}  // namespace tunableop::probe
