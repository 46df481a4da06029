#include "bindings/bindings.h"

PYBIND11_MODULE(_core, module) {
  using namespace tunableop::bindings;
  module.doc() = "Native part of onnxruntime_ep_tunableop. Private.";
  module.attr("__version__") = TUNABLEOP_VERSION;
  BindLibraries(module);
  BindSession(module);
  BindResults(module);
}
