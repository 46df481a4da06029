// The parts of the extension module _core, one file each. Private: the Python package is the
// interface.
#pragma once

#include <pybind11/pybind11.h>

#include "cache/fingerprint.h"

namespace tunableop::bindings {

void BindLibraries(pybind11::module_& module);  // which libraries there are; the fingerprint
void BindSession(pybind11::module_& module);    // the control interface of the provider library
void BindResults(pybind11::module_& module);    // files of tuning results, for tools

pybind11::dict ToDict(const Fingerprint& fingerprint);

}  // namespace tunableop::bindings
