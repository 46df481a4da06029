#include "module/module.h"

#include "bindings/bindings.h"

PYBIND11_MODULE(tunableop_native_tests, module) {
  using namespace tunableop::bindings;
  module.doc() = "The rooms of the native part, for tests and benchmarks of kernels.";
  BindLibraries(module);
  BindGemm(module);
  BindKernels(module);
  BindTuner(module);
  BindWarmUp(module);
  BindDeviceTuner(module);
  BindForms(module);
  BindCache(module);
  BindSensors(module);
  BindCard(module);
  BindJournal(module);
  BindGate(module);
  BindGpu(module);
  BindLt(module);
  BindRtc(module);
#ifdef TUNABLEOP_SANITIZED
  BindMistakes(module);
#endif
}
