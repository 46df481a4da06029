// What must hold before a problem is measured, on a CPU or a card.
#pragma once

#include <string>

#include "gemm/backend.h"
#include "gemm/problem.h"
#include "gemm/status.h"

namespace tunableop {

// kInvalidArgument: Validate() or a pointer that is missing.
Status CheckOperands(const Problem& problem, const Operands& operands);

// Whether two batch items of C may share an element: they lie neither one after the other nor row
// by row beside each other. Such problems are not measured.
bool MayOverlap(const Problem& problem) noexcept;

// "0.25 ms"
std::string Milliseconds(double ms);

}  // namespace tunableop
