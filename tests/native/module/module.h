// The parts of the tests' extension module tunableop_native_tests, one file each: the rooms below
// the provider, seen from Python. Tests and benchmarks of kernels only; never in the wheel.
//
// The module links the rooms into itself, as the provider library does: what is one for each
// process there (the deny list, the loaded libraries) is another one here.
#pragma once

#include <pybind11/pybind11.h>

#include "bindings/errors.h"

namespace tunableop::bindings {

void BindGemm(pybind11::module_& module);         // Problem, Candidate
void BindKernels(pybind11::module_& module);      // candidates, running one kernel on numpy arrays
void BindTuner(pybind11::module_& module);        // Tune, with real and with simulated libraries
void BindWarmUp(pybind11::module_& module);       // what a card needs some time for
void BindCache(pybind11::module_& module);        // documents, files, SessionCache
void BindSensors(pybind11::module_& module);      // sensors, counters, staleness, rates
void BindJournal(pybind11::module_& module);      // the crash journal
void BindGate(pybind11::module_& module);         // runs in flight, and pacing
void BindGpu(pybind11::module_& module);          // the vendors' libraries, cards
void BindLt(pybind11::module_& module);           // GEMM libraries of cards
void BindDeviceTuner(pybind11::module_& module);  // TuneOnDevice, with a fake card
void BindForms(pybind11::module_& module);        // RaceForms, with a fake card
void BindRtc(pybind11::module_& module);          // kernels compiled at run time
void BindCard(pybind11::module_& module);         // one problem on a card
#ifdef TUNABLEOP_SANITIZED
void BindMistakes(pybind11::module_& module);  // for a sanitizer to find
#endif

}  // namespace tunableop::bindings
