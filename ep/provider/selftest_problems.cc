// What the self-test asks kernels to compute.
#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string_view>

#include "gemm/packed_b.h"
#include "provider/selftest.h"

namespace tunableop {
namespace {

struct Kind {
  DataType type;
  Precision precision;
};

constexpr std::array<Kind, 5> kCardKinds = {{{DataType::kFloat32, Precision::kExact},
                                             {DataType::kFloat16, Precision::kExact},
                                             {DataType::kBFloat16, Precision::kExact},
                                             {DataType::kFloat32, Precision::kTf32},
                                             {DataType::kFloat32, Precision::kBf16}}};

struct Size {
  int64_t m;
  int64_t n;
  int64_t k;
};

// The first few are those of a quick test.
constexpr std::array<Size, 9> kSizes = {{{5, 9, 7},
                                         {128, 384, 256},
                                         {1, 512, 1024},
                                         {333, 77, 111},
                                         {7, 13, 1021},
                                         {64, 64, 64},
                                         {16, 1024, 2048},
                                         {256, 1, 300},
                                         {512, 640, 512}}};
constexpr size_t kQuickSizes = 4;

Problem Plain(const Kind& kind, const Size& size) {
  Problem p;
  p.m = size.m;
  p.n = size.n;
  p.k = size.k;
  p.lda = size.k;
  p.ldb = size.n;
  p.ldc = size.n;
  p.a_type = p.b_type = p.c_type = kind.type;
  p.precision = kind.precision;
  p.align_a = p.align_b = p.align_c = kMaxAlignmentLog2;
  return p;
}

Problem Transposed(Problem p, bool a, bool b) {
  if (a) {
    p.trans_a = 1;
    p.lda = p.m;
  }
  if (b) {
    p.trans_b = 1;
    p.ldb = p.k;
  }
  return p;
}

Problem Batched(Problem p, int64_t batch, bool shared_b) {
  p.batch = batch;
  p.stride_a = p.m * p.k;
  p.stride_b = shared_b ? 0 : p.k * p.n;
  p.stride_c = p.m * p.n;
  return p;
}

// Batch items whose rows of C are interleaved, as heads of attention are.
Problem Interleaved(Problem p, int64_t batch) {
  p = Batched(p, batch, /*shared_b=*/false);
  p.ldc = p.n * batch;
  p.stride_c = p.n;
  return p;
}

Problem Padded(Problem p, int64_t gap) {
  p.lda += gap;
  p.ldb += gap;
  p.ldc += gap;
  return p;
}

Problem Scaled(Problem p, ScalarClass alpha, ScalarClass beta) {
  p.alpha = alpha;
  p.beta = beta;
  return p;
}

Problem With(Problem p, Epilogue epilogue) {
  p.epilogue = epilogue;
  return p;
}

Problem Misaligned(Problem p) {
  p.align_a = p.align_b = p.align_c = SizeOf(p.a_type) == 2 ? 1 : 2;
  return p;
}

Problem Constant(Problem p) {
  p.b_constant = 1;
  return p;
}

Problem Packed(Problem p) {
  p.b_constant = 1;
  p.b_layout = BLayout::kPacked;
  p.ldb = 0;
  p.trans_b = 0;
  p.stride_b = p.batch > 1 && p.stride_b != 0 ? PackedFloats(p.k, p.n) : 0;
  return p;
}

// Everything that a problem can differ in, each on a size that suits it.
std::vector<Problem> Variants(const Kind& kind) {
  using enum Epilogue;
  constexpr Size kOdd{33, 65, 47};
  constexpr Size kEven{96, 128, 160};
  const Problem odd = Plain(kind, kOdd);
  const Problem even = Plain(kind, kEven);
  std::vector<Problem> list = {
      Transposed(even, false, true),
      Batched(even, 3, false),
      Scaled(even, ScalarClass::kOther, ScalarClass::kOther),
      With(even, kBias),
      With(even, kBiasGelu),
      // From here on only in a full test.
      Transposed(even, true, false),
      Transposed(odd, true, true),
      Transposed(odd, false, true),
      Batched(odd, 5, true),
      Batched(Transposed(even, false, true), 4, false),
      Interleaved(even, 4),
      Padded(odd, 3),
      Padded(even, 8),
      Scaled(odd, ScalarClass::kOne, ScalarClass::kOne),
      Scaled(Transposed(odd, true, false), ScalarClass::kOther, ScalarClass::kZero),
      With(even, kRelu),
      With(even, kBiasRelu),
      With(odd, kGelu),
      With(Transposed(odd, false, true), kBias),
      With(Constant(even), kBiasGelu),
      Misaligned(even),
      Misaligned(odd),
      Constant(Transposed(even, false, true)),
  };
  return list;
}
constexpr size_t kQuickVariants = 5;

template <typename List>
void Append(const List& from, size_t most, std::vector<Problem>& to) {
  const size_t count = std::min(most, from.size());
  for (size_t i = 0; i < count; ++i) to.push_back(from[i]);
}

Problem Drawn(const Kind& kind, std::mt19937_64& random) {
  std::uniform_real_distribution<double> exponent(0.0, 9.5);
  const auto side = [&] { return static_cast<int64_t>(std::exp2(exponent(random))); };
  const auto coin = [&] { return random() % 2 == 0; };
  Problem p = Transposed(Plain(kind, {side(), side(), side()}), coin(), coin());
  if (random() % 4 == 0) p = Batched(p, 1 + static_cast<int64_t>(random() % 6), coin());
  if (random() % 4 == 0) p = Padded(p, static_cast<int64_t>(random() % 9));
  if (random() % 4 == 0) p = Misaligned(p);
  return p;
}

}  // namespace

std::string KindOf(const Problem& problem) {
  std::string kind(Name(problem.a_type));
  if (problem.precision != Precision::kExact) kind += " as " + std::string(Name(problem.precision));
  return kind;
}

Result<std::vector<Problem>> SelfTestProblems(const SelfTestRequest& request) {
  const std::string_view backend =
      std::string_view(request.device).substr(0, request.device.find(':'));
  const bool card = backend == "cuda" || backend == "hip";
  if (!card && request.device != "cpu") {
    return Status(StatusCode::kInvalidArgument,
                  "device: expected cpu, cuda:<id> or hip:<id>, found '" + request.device + "'");
  }
  std::vector<Problem> problems;
  std::mt19937_64 random(request.seed);
  const size_t drawn = request.quick ? 2 : 8;
  for (size_t kind = 0; kind < (card ? kCardKinds.size() : 1); ++kind) {
    std::vector<Problem> list;
    std::vector<Problem> plain;
    for (const Size& size : kSizes) plain.push_back(Plain(kCardKinds[kind], size));
    Append(plain, request.quick ? kQuickSizes : plain.size(), list);
    const std::vector<Problem> variants = Variants(kCardKinds[kind]);
    Append(variants, request.quick ? kQuickVariants : variants.size(), list);
    for (size_t i = 0; i < drawn; ++i) list.push_back(Drawn(kCardKinds[kind], random));
    for (Problem& problem : list) {
      problem.threads = card ? 0 : 1;
      problems.push_back(problem);
      // A CPU's weights are packed.
      if (!card && problem.trans_b == 0) problems.push_back(Packed(problem));
    }
  }
  // Mixed, so that a test that is cut short has seen something of everything.
  std::shuffle(problems.begin(), problems.end(), random);
  return problems;
}

}  // namespace tunableop
