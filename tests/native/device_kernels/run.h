// What the bindings of the kernels of cards have in common.
#pragma once

#include <pybind11/numpy.h>

#include <cstdint>
#include <string>

#include "kernels/host.h"
#include "kernels/shapes.h"

namespace tunableop::device {

// Throws a KeyError where there is none.
HostKernel KernelOf(const std::string& family, const std::string& t0, const std::string& t1,
                    const std::string& entry);

DimsView DimsOf(const pybind11::array& array);

// The threads of each block in what follows: 1 at first.
uint32_t& ThreadsOfBlocks();

// The kernel's whole grid, with `blocks` in its first dimension (0: as it is). False where there
// are no arguments: the provider would not take these shapes.
template <class Args>
bool RunPrepared(HostKernel kernel, const std::optional<Prepared<Args>>& prepared,
                 uint32_t blocks) {
  if (!prepared) return false;
  const Grid& grid = prepared->grid;
  RunHostKernel(kernel, &prepared->args, {blocks != 0 ? blocks : grid.x, grid.y, grid.z},
                ThreadsOfBlocks());
  return true;
}

void BindCopies(pybind11::module_& module);
void BindElements(pybind11::module_& module);
void BindImages(pybind11::module_& module);
void BindLayers(pybind11::module_& module);
void BindMakes(pybind11::module_& module);
void BindPicks(pybind11::module_& module);
void BindRows(pybind11::module_& module);

}  // namespace tunableop::device
