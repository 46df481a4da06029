// Runs single kernels of a device on made-up problems and compares them with the reference: the
// native half of `tunableop selftest`. No session is involved, nothing is denied or remembered.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gemm/problem.h"
#include "gemm/status.h"

namespace tunableop {

struct SelfTestRequest {
  std::string device;  // "cpu", "cuda:0", "hip:1"
  bool quick = false;  // fewer problems
  uint64_t seed = 0;   // of what is drawn
};

// What became of one library's kernels on one problem.
struct LibraryVerdict {
  std::string library;
  int kernels = 0;  // that ran and were checked
  int refused = 0;  // that cannot run the problem, by the library's own word
  // That the library does not list, found by searching, and were wrong or too inexact: elections
  // refuse them (some of cublasLt's keep partial sums in 16 bits without saying so).
  int inexact = 0;
  int left_out = 0;    // for which there was no time
  double error = 0.0;  // the largest of those that were right, relative to the tolerance
  std::vector<std::string> failures;  // "kernel: wrong answer: row 3 ..."
};

struct SelfTestVerdict {
  Problem problem;
  // Some kernel has to run it, for the provider asks for such. Epilogues it can do without, and
  // batch items of C that lie among each other it has none of.
  bool asked_by_provider = true;
  std::vector<LibraryVerdict> libraries;
  // Nothing more can be tested in this process, and why: the card is lost, or a kernel on it does
  // not end.
  std::string stopped;
};

// Depends on the request only. kInvalidArgument: `device` is none of the three kinds.
Result<std::vector<Problem>> SelfTestProblems(const SelfTestRequest& request);

// Runs one of them with every kernel that the libraries list, and some that they do not
// (Backend::Explore), for some seconds at most. Errors: kNotFound: no such device; kOutOfMemory.
// Takes the calling thread; thread-safe.
Result<SelfTestVerdict> RunSelfTest(const SelfTestRequest& request, const Problem& problem);

// "fp16", "fp32 as tf32".
std::string KindOf(const Problem& problem);

}  // namespace tunableop
