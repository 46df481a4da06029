// What the functions of the module that tune take and give.
#pragma once

#include <pybind11/numpy.h>

#include <optional>

#include "gemm/backend.h"
#include "gemm/problem.h"
#include "tuner/tuner.h"

namespace tunableop::bindings {

using Array = std::optional<pybind11::array>;

// Throws value_error where an array is too small or of another type than the problem's.
Operands MakeOperands(const Problem& p, const Array& a, const Array& b, const Array& c,
                      const Array& bias, float alpha, float beta);
TunerOptions MakeOptions(const pybind11::kwargs& kwargs);
pybind11::dict ToDict(const TuneResult& result);

}  // namespace tunableop::bindings
