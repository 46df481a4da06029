// Libraries, candidates and single kernels on numpy arrays, for tests and benchmarks.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "backends/cpu/instruction_sets.h"
#include "backends/cpu/native_plan.h"
#include "backends/cpu/prior.h"
#include "backends/registry.h"
#include "gemm/packed_b.h"
#include "module/module.h"
#include "tuner/measure_pool.h"

namespace py = pybind11;

namespace tunableop::bindings {
namespace {

std::vector<Candidate> AllCandidates(const Problem& problem, bool scope_all,
                                     const std::optional<std::string>& library) {
  std::vector<Candidate> result;
  for (const auto& backend : CpuBackends()) {
    if (library && backend->library() != *library) continue;
    for (Candidate& candidate : backend->Candidates(
             problem, scope_all ? CandidateScope::kAll : CandidateScope::kDefault)) {
      result.push_back(std::move(candidate));
    }
  }
  return result;
}

std::vector<std::string> NativeIsas() {
  std::vector<std::string> names;
  for (const cpu::MicroKernels* kernels : cpu::RunnableKernels()) names.emplace_back(kernels->name);
  return names;
}

std::vector<Candidate> NativeKernels(const std::string& isa, const Problem& problem) {
  const cpu::MicroKernels* kernels = cpu::FindKernels(isa);
  if (kernels == nullptr) {
    ThrowIfError({StatusCode::kNotFound, "this machine cannot run '" + isa + "'"});
  }
  ThrowIfError(Validate(problem));
  std::vector<Candidate> result;
  if (!cpu::NativeSupports(problem)) return result;
  for (const cpu::KernelConfig& config :
       cpu::RankedConfigs(*kernels, problem, CandidateScope::kAll)) {
    result.push_back(Candidate{"native", cpu::ToName(config), -1, 0});
  }
  return result;
}

// Where an operand is: an array that says so itself, or an address (to reach memory that numpy
// cannot describe: misaligned, or next to a guard page).
using Buffer = std::variant<std::uintptr_t, py::buffer>;

void* Address(const Buffer& buffer, bool writable) {
  if (const auto* address = std::get_if<std::uintptr_t>(&buffer)) {
    return reinterpret_cast<void*>(*address);
  }
  const py::buffer_info info = std::get<py::buffer>(buffer).request(writable);
  if (info.itemsize != sizeof(float) || info.format != py::format_descriptor<float>::format()) {
    throw py::value_error("an operand must be float32");
  }
  return info.ptr;
}

Operands MakeOperands(const Problem& problem, const Buffer& a,
                      const std::variant<const PackedB*, Buffer>& b, const Buffer& c,
                      const std::optional<Buffer>& bias, float alpha, float beta) {
  Operands operands;
  operands.a = Address(a, false);
  if (const auto* packed = std::get_if<const PackedB*>(&b)) {
    if (problem.b_layout != BLayout::kPacked || (*packed)->k() != problem.k ||
        (*packed)->n() != problem.n) {
      throw py::value_error("the packed B does not fit the problem");
    }
    operands.packed_b = (*packed)->data();
  } else if (problem.b_layout == BLayout::kPacked) {
    throw py::value_error("the problem wants a packed B");
  } else {
    operands.b = Address(std::get<Buffer>(b), false);
  }
  operands.c = Address(c, true);
  if (bias) operands.bias = Address(*bias, false);
  operands.alpha = alpha;
  operands.beta = beta;
  if (ClassOf(alpha) != problem.alpha && problem.alpha != ScalarClass::kOther) {
    throw py::value_error("alpha is not of the problem's class");
  }
  if (ClassOf(beta) != problem.beta && problem.beta != ScalarClass::kOther) {
    throw py::value_error("beta is not of the problem's class");
  }
  return operands;
}

std::unique_ptr<Plan> MakePlan(const Problem& problem, const Candidate& candidate) {
  const auto backend = FindCpuBackend(candidate.library);
  if (backend == nullptr) {
    ThrowIfError({StatusCode::kNotFound, "library '" + candidate.library + "' is not available"});
  }
  auto plan = backend->Prepare(problem, candidate);
  if (!plan.ok()) ThrowIfError(plan.TakeStatus());
  return std::move(plan).value();
}

void RunKernel(const Problem& problem, const Candidate& candidate, const Buffer& a,
               const std::variant<const PackedB*, Buffer>& b, const Buffer& c,
               const std::optional<Buffer>& bias, float alpha, float beta, int threads) {
  const Operands operands = MakeOperands(problem, a, b, c, bias, alpha, beta);
  const std::unique_ptr<Plan> plan = MakePlan(problem, candidate);
  Status status;
  {
    py::gil_scoped_release release;
    MeasurePool executor(threads);
    status = plan->Run(operands, executor);
  }
  ThrowIfError(status);
}

std::vector<double> TimeKernel(const Problem& problem, const Candidate& candidate, const Buffer& a,
                               const std::variant<const PackedB*, Buffer>& b, const Buffer& c,
                               const std::optional<Buffer>& bias, float alpha, float beta,
                               int threads, int iterations, int repeat) {
  if (iterations < 0 || repeat < 1) throw py::value_error("iterations >= 0, repeat >= 1");
  const Operands operands = MakeOperands(problem, a, b, c, bias, alpha, beta);
  const std::unique_ptr<Plan> plan = MakePlan(problem, candidate);
  std::vector<double> seconds;
  seconds.reserve(static_cast<size_t>(iterations));
  Status status;
  {
    py::gil_scoped_release release;
    MeasurePool executor(threads);
    for (int i = 0; i < iterations && status.ok(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      for (int j = 0; j < repeat && status.ok(); ++j) status = plan->Run(operands, executor);
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
      seconds.push_back(spent.count() / repeat);
    }
  }
  ThrowIfError(status);
  return seconds;
}

std::unique_ptr<PackedB> MakePackedB(const py::array_t<float>& array, bool transposed) {
  const py::buffer_info info = array.request();
  if (info.ndim != 2 && info.ndim != 3) throw py::value_error("B must have 2 or 3 dimensions");
  const auto last = static_cast<size_t>(info.ndim - 1);
  const auto size = static_cast<int64_t>(sizeof(float));
  if (info.shape[last] > 1 && info.strides[last] != size) {
    throw py::value_error("rows of B must be contiguous");
  }
  const int64_t rows = info.shape[last - 1];
  const int64_t columns = info.shape[last];
  int64_t ldb = rows > 1 ? info.strides[last - 1] / size : columns;
  if (columns == 1 && info.strides[last] != size && rows > 1) ldb = info.strides[last - 1] / size;
  ldb = std::max<int64_t>(1, ldb);
  const int64_t batch = info.ndim == 3 ? info.shape[0] : 1;
  const int64_t stride = info.ndim == 3 ? info.strides[0] / size : 0;
  const auto* data = static_cast<const float*>(info.ptr);
  Result<PackedB> packed = [&] {
    py::gil_scoped_release release;
    return PackedB::Pack(data, ldb, transposed, transposed ? columns : rows,
                         transposed ? rows : columns, batch, stride);
  }();
  if (!packed.ok()) ThrowIfError(packed.TakeStatus());
  return std::make_unique<PackedB>(std::move(packed).value());
}

// The matrices as packed, read back element by element: [batch, k, n].
py::array_t<float> Unpacked(const PackedB& packed) {
  py::array_t<float> array({packed.batch(), packed.k(), packed.n()});
  auto view = array.mutable_unchecked<3>();
  for (int64_t i = 0; i < packed.batch(); ++i) {
    const float* matrix = packed.data() + i * packed.stride();
    for (int64_t p = 0; p < packed.k(); ++p) {
      for (int64_t j = 0; j < packed.n(); ++j) {
        view(i, p, j) = PackedAt(matrix, packed.k(), packed.n(), p, j);
      }
    }
  }
  return array;
}

// What UnpackB makes of matrix `index`: [k, ldo], where what it left alone is NaN.
py::array_t<float> UnpackedByRow(const PackedB& packed, int64_t index, int64_t ldo) {
  if (index < 0 || index >= packed.batch() || ldo < packed.n()) {
    throw py::value_error("no such matrix, or rows too short");
  }
  py::array_t<float> array({packed.k(), ldo});
  std::fill_n(array.mutable_data(), array.size(), std::numeric_limits<float>::quiet_NaN());
  UnpackB(packed.data() + index * packed.stride(), packed.k(), packed.n(), array.mutable_data(),
          ldo);
  return array;
}

// The stored floats, padding included; a copy.
py::array_t<float> Raw(const PackedB& packed) {
  const int64_t floats = packed.batch() * packed.stride();
  py::array_t<float> array(floats);
  std::memcpy(array.mutable_data(), packed.data(), static_cast<size_t>(floats) * sizeof(float));
  return array;
}

}  // namespace

void BindKernels(py::module_& module) {
  py::class_<PackedB>(module, "PackedB")
      .def_property_readonly("k", &PackedB::k)
      .def_property_readonly("n", &PackedB::n)
      .def_property_readonly("batch", &PackedB::batch)
      .def_property_readonly("stride", &PackedB::stride)
      .def_property_readonly("bytes", &PackedB::bytes)
      .def_property_readonly(
          "address", [](const PackedB& b) { return reinterpret_cast<std::uintptr_t>(b.data()); })
      .def("to_numpy", &Unpacked)
      .def("unpack", &UnpackedByRow, py::arg("index"), py::arg("ldo"))
      .def("raw", &Raw);

  module.def("candidates", &AllCandidates, py::arg("problem"), py::arg("scope_all") = false,
             py::arg("library") = py::none());
  module.def("native_isas", &NativeIsas);
  module.def("native_kernels", &NativeKernels, py::arg("isa"), py::arg("problem"));
  module.def("pack_b", &MakePackedB, py::arg("array"), py::arg("transposed") = false);
  module.def("run_kernel", &RunKernel, py::arg("problem"), py::arg("candidate"), py::arg("a"),
             py::arg("b"), py::arg("c"), py::arg("bias") = py::none(), py::arg("alpha") = 1.0F,
             py::arg("beta") = 0.0F, py::arg("threads") = 1);
  module.def("time_kernel", &TimeKernel, py::arg("problem"), py::arg("candidate"), py::arg("a"),
             py::arg("b"), py::arg("c"), py::arg("bias") = py::none(), py::arg("alpha") = 1.0F,
             py::arg("beta") = 0.0F, py::arg("threads") = 1, py::arg("iterations") = 10,
             py::arg("repeat") = 1);
}

}  // namespace tunableop::bindings
