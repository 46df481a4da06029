// The C functions that both vendors have under the same names, but for the prefix.
#pragma once

#include <string>
#include <string_view>

#include "backends/gpu/vendor_library.h"
#include "gemm/status.h"

namespace tunableop::lt {

// Null: absent.
template <typename Function>
Function Find(const VendorLibrary& library, std::string_view name) {
  return reinterpret_cast<Function>(library.Symbol(std::string(name).c_str()));
}

// Finds symbols, and keeps the name of the first that is missing.
class Binder {
 public:
  Binder(const VendorLibrary& library, std::string_view prefix)
      : library_(library), prefix_(prefix) {}

  template <typename Function>
  void operator()(std::string_view name, Function& function) {
    const std::string symbol = prefix_ + std::string(name);
    function = Find<Function>(library_, symbol);
    if (function == nullptr && missing_.empty()) missing_ = symbol;
  }

  Status status() const {
    if (missing_.empty()) return Status::Ok();
    return {StatusCode::kNotSupported, library_.path() + " has no " + missing_};
  }

 private:
  const VendorLibrary& library_;
  std::string prefix_;
  std::string missing_;
};

template <typename V>
struct Api {
  typename V::CreateFn create;
  typename V::DestroyFn destroy;
  typename V::LayoutCreateFn layout_create;
  typename V::LayoutDestroyFn layout_destroy;
  typename V::LayoutSetFn layout_set;
  typename V::DescCreateFn desc_create;
  typename V::DescDestroyFn desc_destroy;
  typename V::DescSetFn desc_set;
  typename V::PreferenceCreateFn preference_create;
  typename V::PreferenceDestroyFn preference_destroy;
  typename V::PreferenceSetFn preference_set;
  typename V::HeuristicFn heuristic;
  typename V::MatmulFn matmul;

  static Result<Api> Load(const VendorLibrary& library) {
    Api api{};
    Binder bind(library, V::kPrefix);
    bind("Create", api.create);
    bind("Destroy", api.destroy);
    bind("MatrixLayoutCreate", api.layout_create);
    bind("MatrixLayoutDestroy", api.layout_destroy);
    bind("MatrixLayoutSetAttribute", api.layout_set);
    bind("MatmulDescCreate", api.desc_create);
    bind("MatmulDescDestroy", api.desc_destroy);
    bind("MatmulDescSetAttribute", api.desc_set);
    bind("MatmulPreferenceCreate", api.preference_create);
    bind("MatmulPreferenceDestroy", api.preference_destroy);
    bind("MatmulPreferenceSetAttribute", api.preference_set);
    bind("MatmulAlgoGetHeuristic", api.heuristic);
    bind("Matmul", api.matmul);
    TUNABLEOP_RETURN_IF_ERROR(bind.status());
    return api;
  }
};

// 0 is success with both vendors.
template <typename V>
Status ToStatus(int status, std::string_view call) {
  if (status == 0) return Status::Ok();
  StatusCode code = StatusCode::kInternal;
  if (status == V::kAllocFailed) code = StatusCode::kOutOfMemory;
  if (status == V::kNotSupported || status == V::kArchMismatch) code = StatusCode::kNotSupported;
  return {code, std::string(V::kPrefix) + std::string(call) + ": " + V::StatusName(status) + " (" +
                    std::to_string(status) + ")"};
}

}  // namespace tunableop::lt
