// What a measured time means: arithmetic and memory rates of a GEMM.
#pragma once

#include "gemm/problem.h"

namespace tunableop {

// 1e9 floating-point operations a second: a multiplication and an addition for each of m n k, the
// epilogue not counted. 0 when `ms` is not positive.
double Gflops(const Problem& problem, double ms) noexcept;

// Bytes that have to move even if every cache were perfect: A and B read once, C written once, and
// read once if beta is not zero; bias read once. A matrix that serves the whole batch (stride 0)
// counts once; a packed B without its padding. Only sizes count, not leading dimensions.
double CompulsoryBytes(const Problem& problem) noexcept;

// 1e9 compulsory bytes a second; a lower bound of the real traffic. Above what memory can deliver:
// the operands came from a cache. 0 when `ms` is not positive.
double GigabytesPerSecond(const Problem& problem, double ms) noexcept;

}  // namespace tunableop
