// The kernels of this room as functions of the host, one thread a block if not asked for more: for
// tests and for the simulated vendors' libraries. Never in the wheel. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tunableop::device {

struct HostGrid {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;
};

struct HostBlock {
  uint32_t x = 0;
  uint32_t y = 0;
  uint32_t z = 0;
};

// Runs one block. `args`: the kernel's one struct.
using HostKernel = void (*)(const void* args, HostGrid grid, HostBlock index);

// Null: there is none.
HostKernel FindHostKernel(std::string_view family, std::string_view t0, std::string_view t1,
                          std::string_view entry);

// How large its struct is; 0: there is no such kernel.
size_t HostKernelArgsBytes(std::string_view family, std::string_view t0, std::string_view t1,
                           std::string_view entry);

// One block of several threads, which run in turn (host_threads.h).
void RunHostBlock(HostKernel kernel, const void* args, HostGrid grid, HostBlock index,
                  uint32_t threads);

// All blocks of a grid, one after another.
void RunHostKernel(HostKernel kernel, const void* args, HostGrid grid, uint32_t threads = 1);

struct HostKernelName {
  std::string_view family;
  std::string_view t0;
  std::string_view t1;
  std::string_view entry;
};
std::vector<HostKernelName> HostKernelNames();

}  // namespace tunableop::device
