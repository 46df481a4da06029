// The parts of the extension module _core, one file each. Private: the Python package is the
// interface.
#pragma once

#include <pybind11/pybind11.h>

#include "gemm/status.h"

namespace tunableop::bindings {

void BindGemm(pybind11::module_& module);  // Problem, Candidate
void BindKernels(
    pybind11::module_& module);  // libraries, candidates, running one kernel on numpy arrays
void BindTuner(pybind11::module_& module);    // Tune, and a simulated backend for tests
void BindCache(pybind11::module_& module);    // documents, files, fingerprint, SessionCache
void BindSession(pybind11::module_& module);  // the control interface of the provider library

// Raises the Python exception that fits the code: ValueError (invalid argument, damaged data),
// FileNotFoundError, NotImplementedError, MemoryError, OSError, RuntimeError.
void ThrowIfError(const Status& status);

}  // namespace tunableop::bindings
