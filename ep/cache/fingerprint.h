// What a measurement depends on beside the problem: the machine.
#pragma once

#include <string>
#include <vector>

namespace tunableop {

struct Fingerprint {
  std::string device;    // "cpu" (GPU backends add theirs)
  std::string model;     // "AMD EPYC 9R14" (CPU: brand string)
  std::string features;  // instruction sets that kernels use, sorted: "avx avx2 avx512f fma"
  int cores = 0;         // logical processors of the machine, whatever this process may use of them

  bool operator==(const Fingerprint&) const = default;
};

// This machine's CPU. Computed once. Thread-safe.
const Fingerprint& CpuFingerprint();

}  // namespace tunableop
