// The two functions that ONNX Runtime looks up in a plugin library.
#include <cstdio>

#include "provider/factory.h"
#include "provider/guard.h"
#include "provider/log.h"
#include "provider/ort_runtime.h"

#define TUNABLEOP_EXPORT extern "C" __attribute__((visibility("default")))

TUNABLEOP_EXPORT OrtStatus* CreateEpFactories(const char* /*registered_name*/,
                                              const OrtApiBase* ort,
                                              const OrtLogger* default_logger,
                                              OrtEpFactory** factories, size_t max_factories,
                                              size_t* factory_count) noexcept {
  *factory_count = 0;
  if (tunableop::Status status = tunableop::InitOrt(ort); !status.ok()) {
    // There are no tables of a usable version; the oldest version's first slots suffice for an
    // error.
    const OrtApi* api = ort != nullptr ? ort->GetApi(1) : nullptr;
    if (api != nullptr) return api->CreateStatus(ORT_FAIL, status.c_str());
    std::fprintf(stderr, "[TunableOp] %s\n", status.c_str());
    return nullptr;
  }
  return tunableop::Guard([&]() -> tunableop::Status {
    if (max_factories < 1) {
      return {tunableop::StatusCode::kInvalidArgument, "TunableOp needs room for one factory"};
    }
    // One for the process, never destroyed: see Factory.
    static auto& factory = *new tunableop::Factory;
    tunableop::SetDefaultLogger(default_logger);
    factories[0] = &factory;
    *factory_count = 1;
    return tunableop::Status::Ok();
  });
}

TUNABLEOP_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* /*factory*/) noexcept {
  return nullptr;  // the factory stays: see Factory
}
