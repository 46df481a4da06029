#include <pybind11/stl.h>

#include "gemm/backend.h"
#include "gemm/packed_b.h"
#include "gemm/problem.h"
#include "module/module.h"

namespace py = pybind11;

namespace tunableop::bindings {

void BindGemm(py::module_& module) {
  py::enum_<DataType>(module, "DataType")
      .value("float32", DataType::kFloat32)
      .value("float16", DataType::kFloat16)
      .value("bfloat16", DataType::kBFloat16)
      .value("float64", DataType::kFloat64);
  py::enum_<ScalarClass>(module, "ScalarClass")
      .value("zero", ScalarClass::kZero)
      .value("one", ScalarClass::kOne)
      .value("other", ScalarClass::kOther);
  py::enum_<Epilogue>(module, "Epilogue")
      .value("none", Epilogue::kNone)
      .value("bias", Epilogue::kBias)
      .value("relu", Epilogue::kRelu)
      .value("bias_relu", Epilogue::kBiasRelu)
      .value("gelu", Epilogue::kGelu)
      .value("bias_gelu", Epilogue::kBiasGelu);
  py::enum_<Precision>(module, "Precision")
      .value("exact", Precision::kExact)
      .value("bf16", Precision::kBf16)
      .value("tf32", Precision::kTf32);
  py::enum_<BLayout>(module, "BLayout")
      .value("plain", BLayout::kPlain)
      .value("packed", BLayout::kPacked);

  py::class_<Problem>(module, "Problem")
      .def(py::init<>())
      .def_readwrite("m", &Problem::m)
      .def_readwrite("n", &Problem::n)
      .def_readwrite("k", &Problem::k)
      .def_readwrite("batch", &Problem::batch)
      .def_readwrite("lda", &Problem::lda)
      .def_readwrite("ldb", &Problem::ldb)
      .def_readwrite("ldc", &Problem::ldc)
      .def_readwrite("stride_a", &Problem::stride_a)
      .def_readwrite("stride_b", &Problem::stride_b)
      .def_readwrite("stride_c", &Problem::stride_c)
      .def_readwrite("a_type", &Problem::a_type)
      .def_readwrite("b_type", &Problem::b_type)
      .def_readwrite("c_type", &Problem::c_type)
      .def_readwrite("trans_a", &Problem::trans_a)
      .def_readwrite("trans_b", &Problem::trans_b)
      .def_readwrite("b_layout", &Problem::b_layout)
      .def_readwrite("b_constant", &Problem::b_constant)
      .def_readwrite("alpha", &Problem::alpha)
      .def_readwrite("beta", &Problem::beta)
      .def_readwrite("epilogue", &Problem::epilogue)
      .def_readwrite("precision", &Problem::precision)
      .def_readwrite("align_a", &Problem::align_a)
      .def_readwrite("align_b", &Problem::align_b)
      .def_readwrite("align_c", &Problem::align_c)
      .def_readwrite("threads", &Problem::threads)
      .def("flops", [](const Problem& p) { return Flops(p); })
      .def("validate", [](const Problem& p) { ThrowIfError(Validate(p)); })
      .def("__eq__", [](const Problem& a, const Problem& b) { return a == b; })
      .def("__hash__", [](const Problem& p) { return Hash(p); })
      .def("__repr__", [](const Problem& p) { return "<Problem " + ToString(p) + ">"; })
      .def("__copy__", [](const Problem& p) { return p; });

  py::class_<Candidate>(module, "Candidate")
      .def(py::init<>())
      .def(py::init([](std::string library, std::string kernel) {
             return Candidate{std::move(library), std::move(kernel), -1, 0};
           }),
           py::arg("library"), py::arg("kernel"))
      .def_readwrite("library", &Candidate::library)
      .def_readwrite("kernel", &Candidate::kernel)
      .def_readwrite("opaque_id", &Candidate::opaque_id)
      .def_readwrite("workspace_bytes", &Candidate::workspace_bytes)
      .def_property_readonly("full_name", &Candidate::FullName)
      .def("__eq__", [](const Candidate& a, const Candidate& b) { return a == b; })
      .def("__repr__", [](const Candidate& c) { return "<Candidate " + c.FullName() + ">"; });

  module.def("packed_floats", &PackedFloats, py::arg("k"), py::arg("n"));
}

}  // namespace tunableop::bindings
