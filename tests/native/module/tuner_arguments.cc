#include "module/tuner_arguments.h"

#include <pybind11/stl.h>

#include "gemm/packed_b.h"
#include "module/module.h"

namespace py = pybind11;

namespace tunableop::bindings {
namespace {

// Elements from the first to the last of `batch` matrices.
int64_t Extent(int64_t rows, int64_t columns, int64_t leading, int64_t batch, int64_t stride) {
  if (rows == 0 || columns == 0 || batch == 0) return 0;
  return (batch - 1) * stride + (rows - 1) * leading + columns;
}

// The data of an array that must hold `elements` of `type`; nullptr for None.
void* Data(const Array& array, const char* name, DataType type, int64_t elements) {
  if (!array) return nullptr;
  const auto size = static_cast<py::ssize_t>(SizeOf(type));
  if (array->itemsize() != size || !(array->flags() & py::array::c_style)) {
    throw py::value_error(std::string(name) + ": expected a C-contiguous array of " +
                          std::string(Name(type)));
  }
  if (array->size() < elements) {
    throw py::value_error(std::string(name) + ": expected at least " + std::to_string(elements) +
                          " elements, found " + std::to_string(array->size()));
  }
  return const_cast<void*>(array->data());
}

}  // namespace

Operands MakeOperands(const Problem& p, const Array& a, const Array& b, const Array& c,
                      const Array& bias, float alpha, float beta) {
  ThrowIfError(Validate(p));
  Operands o;
  o.a = Data(a, "a", p.a_type,
             Extent(p.trans_a ? p.k : p.m, p.trans_a ? p.m : p.k, p.lda, p.batch, p.stride_a));
  if (p.b_layout == BLayout::kPacked) {
    o.packed_b = static_cast<const float*>(
        Data(b, "b", DataType::kFloat32, (p.batch - 1) * p.stride_b + PackedFloats(p.k, p.n)));
  } else {
    o.b = Data(b, "b", p.b_type,
               Extent(p.trans_b ? p.n : p.k, p.trans_b ? p.k : p.n, p.ldb, p.batch, p.stride_b));
  }
  o.c = Data(c, "c", p.c_type, Extent(p.m, p.n, p.ldc, p.batch, p.stride_c));
  o.bias = Data(bias, "bias", p.c_type, p.n);
  o.alpha = alpha;
  o.beta = beta;
  return o;
}

TunerOptions MakeOptions(const py::kwargs& kwargs) {
  TunerOptions options;
  for (const auto& [key, value] : kwargs) {
    const auto name = py::cast<std::string>(key);
    if (name == "warmup_iter") {
      options.warmup_iter = py::cast<int>(value);
    } else if (name == "min_gain") {
      options.min_gain = py::cast<double>(value);
    } else if (name == "max_tuning_ms") {
      options.max_tuning_ms = py::cast<double>(value);
    } else if (name == "verify") {
      options.verify = py::cast<bool>(value);
    } else if (name == "scope_all") {
      options.candidates = py::cast<bool>(value) ? CandidateScope::kAll : CandidateScope::kDefault;
    } else if (name == "max_scratch_bytes") {
      options.max_scratch_bytes = py::cast<size_t>(value);
    } else if (name == "remember_wrong") {
      options.remember_wrong = py::cast<bool>(value);
    } else if (name == "incumbent") {
      options.incumbent = py::cast<std::optional<Candidate>>(value);
    } else if (name == "cold_b") {
      options.cold_b = py::cast<bool>(value);
    } else if (name == "hang_ms") {
      options.hang_ms = py::cast<double>(value);
    } else if (name == "count_hardware") {
      options.count_hardware = py::cast<bool>(value);
    } else {
      throw py::type_error("unknown option " + name +
                           ": expected warmup_iter, min_gain, max_tuning_ms, verify, scope_all, "
                           "max_scratch_bytes, remember_wrong, incumbent, cold_b, hang_ms or "
                           "count_hardware");
    }
  }
  return options;
}

py::dict ToDict(const TuneResult& result) {
  py::dict d;
  d["winner"] = result.winner;
  d["default"] = result.default_candidate;
  d["winner_ms"] = result.winner_ms;
  d["default_ms"] = result.default_ms;
  d["error"] = result.error;
  d["tried"] = result.tried;
  d["spent_ms"] = result.spent_ms;
  d["budget_ms"] = result.budget_ms;
  d["why"] = result.why;
  d["has_plan"] = result.plan != nullptr;
  py::dict rejected;
  for (const Rejection& r : result.rejected) rejected[py::str(r.candidate.FullName())] = r.reason;
  d["rejected"] = rejected;
  py::dict samples;
  for (const Sample& s : result.samples) samples[py::str(s.candidate.FullName())] = s.milliseconds;
  d["samples"] = samples;
  d["spectator_ms"] = result.spectator_ms;
  d["spectator_wins"] = result.spectator_wins;
  d["spectator_note"] = result.spectator_note;
  d["cold"] = result.cold;
  d["clock_mhz"] = result.clock_mhz;
  d["cycles"] = result.counters.cycles;
  d["instructions"] = result.counters.instructions;
  d["cache_misses"] = result.counters.cache_misses;
  d["counters_unavailable"] = result.counters.unavailable;
  return d;
}

}  // namespace tunableop::bindings
