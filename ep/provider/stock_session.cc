#include "provider/stock_session.h"

#include <functional>
#include <numeric>
#include <string>
#include <utility>

namespace tunableop {
namespace {

thread_local bool t_being_made = false;

struct BeingMade {
  BeingMade() noexcept { t_being_made = true; }
  ~BeingMade() { t_being_made = false; }
  BeingMade(const BeingMade&) = delete;
  BeingMade& operator=(const BeingMade&) = delete;
};

using OwnedMemoryInfo = std::unique_ptr<OrtMemoryInfo, OrtDeleter<&OrtApi::ReleaseMemoryInfo>>;

Result<OwnedMemoryInfo> CpuMemory() {
  OrtMemoryInfo* raw = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(
      Ort().api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &raw));
  return OwnedMemoryInfo(raw);
}

// The pointer of a node's input or output as a tensor; ONNX Runtime only writes to outputs.
Result<OwnedValue> Wrap(const OrtMemoryInfo* memory, const void* data,
                        const std::vector<int64_t>& dims) {
  const auto elements = static_cast<size_t>(
      std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>()));
  OrtValue* raw = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->CreateTensorWithDataAsOrtValue(
      memory, const_cast<void*>(data), elements * sizeof(float), dims.data(), dims.size(),
      ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &raw));
  return OwnedValue(raw);
}

Status Configure(OrtSessionOptions* options, int threads, StockSession::Idle idle) {
  const OrtApi& api = *Ort().api;
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.SetIntraOpNumThreads(options, threads));
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.SetInterOpNumThreads(options, 1));
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.SetSessionLogSeverityLevel(options, ORT_LOGGING_LEVEL_ERROR));
  // The node needs no memory but what it is given; an arena would keep more than the weight.
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.DisableCpuMemArena(options));
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.DisableMemPattern(options));
  if (idle == StockSession::Idle::kSpin) return Status::Ok();
  return FromOrt(api.AddSessionConfigEntry(options, "session.force_spinning_stop", "1"));
}

}  // namespace

Result<std::unique_ptr<StockSession>> StockSession::Create(const NodeSpec& node, int threads,
                                                           Idle idle, const float* weight) {
  std::unique_ptr<StockSession> session(new StockSession(node));
  const BeingMade being_made;
  TUNABLEOP_RETURN_IF_ERROR(session->Open(threads, idle, weight));
  return session;
}

bool StockSession::IsBeingMade() noexcept { return t_being_made; }

Status StockSession::Open(int threads, Idle idle, const float* weight) {
  const OrtApi& api = *Ort().api;
  OrtEnv* env = nullptr;
  // There is one already, and this is it: the level and the name are those it was made with.
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.CreateEnv(ORT_LOGGING_LEVEL_WARNING, "tunableop", &env));
  env_.reset(env);
  OrtSessionOptions* options = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.CreateSessionOptions(&options));
  const OwnedSessionOptions owned_options(options);
  TUNABLEOP_RETURN_IF_ERROR(Configure(options, threads, idle));
  OwnedValue initializer;
  if (node_.b_constant) {
    Result<OwnedMemoryInfo> memory = CpuMemory();
    if (!memory.ok()) return memory.TakeStatus();
    Result<OwnedValue> value = Wrap(memory.value().get(), weight, node_.b);
    if (!value.ok()) return value.TakeStatus();
    initializer = std::move(value).value();
    const char* const name = "B";
    const OrtValue* const pointer = initializer.get();
    TUNABLEOP_RETURN_IF_ORT_ERROR(api.AddExternalInitializers(options, &name, &pointer, 1));
  }
  const std::string model = OneNodeModel(node_);
  OrtSession* session = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(
      api.CreateSessionFromArray(env, model.data(), model.size(), options, &session));
  session_.reset(session);
  return Status::Ok();
}

Status StockSession::Bind(const Pointers& pointers) {
  bound_ = false;
  inputs_ = 0;
  Result<OwnedMemoryInfo> memory = CpuMemory();
  if (!memory.ok()) return memory.TakeStatus();
  const auto add = [&](const char* name, const void* data, const std::vector<int64_t>& dims) {
    Result<OwnedValue> value = Wrap(memory.value().get(), data, dims);
    if (!value.ok()) return value.TakeStatus();
    values_[inputs_] = std::move(value).value();
    input_values_[inputs_] = values_[inputs_].get();
    input_names_[inputs_++] = name;
    return Status::Ok();
  };
  TUNABLEOP_RETURN_IF_ERROR(add("A", pointers.a, node_.a));
  if (!node_.b_constant) TUNABLEOP_RETURN_IF_ERROR(add("B", pointers.b, node_.b));
  if (!node_.c.empty()) TUNABLEOP_RETURN_IF_ERROR(add("C", pointers.c, node_.c));
  Result<OwnedValue> output = Wrap(memory.value().get(), pointers.y, node_.y);
  if (!output.ok()) return output.TakeStatus();
  output_ = std::move(output).value();
  pointers_ = pointers;
  bound_ = true;
  return Status::Ok();
}

Status StockSession::Run(const Pointers& pointers) {
  if (!bound_ || pointers != pointers_) TUNABLEOP_RETURN_IF_ERROR(Bind(pointers));
  const char* const output_name = "Y";
  OrtValue* output = output_.get();
  return FromOrt(Ort().api->Run(session_.get(), nullptr, input_names_.data(), input_values_.data(),
                                inputs_, &output_name, 1, &output));
}

}  // namespace tunableop
