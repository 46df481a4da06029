// The control interface: launching a captured graph without ONNX Runtime in between.
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "provider/control.h"
#include "provider/run_gate.h"
#include "provider/sessions.h"

namespace tunableop {
namespace {

char* Copy(std::string_view text) noexcept {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) return nullptr;
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return copy;
}

std::vector<Graphs::Transfer> TransfersOf(const TunableOpTransfer* first, size_t count) {
  std::vector<Graphs::Transfer> all;
  all.reserve(count);
  for (size_t i = 0; i < count; ++i) all.push_back({first[i].card, first[i].host, first[i].bytes});
  return all;
}

Status Replay(const std::string& token, int id, const std::vector<Graphs::Transfer>& in,
              const std::vector<Graphs::Transfer>& out) {
  const std::shared_ptr<SessionState> state = Sessions().Find(token);
  const std::shared_ptr<GpuSession> gpu = Sessions().FindGpu(token);
  if (state == nullptr || gpu == nullptr) return {StatusCode::kNotFound, "the session is gone"};
  const ServedRun run;
  return gpu->graphs().Replay(id, state->Choices(), in, out);
}

}  // namespace
}  // namespace tunableop

int TunableOpReplay(const char* token, int id, const TunableOpTransfer* in, size_t in_count,
                    const TunableOpTransfer* out, size_t out_count, char** error) {
  *error = nullptr;
  try {
    const tunableop::Status status = tunableop::Replay(
        token, id, tunableop::TransfersOf(in, in_count), tunableop::TransfersOf(out, out_count));
    if (!status.ok()) *error = tunableop::Copy(status.message());
    return static_cast<int>(status.code());
  } catch (const std::exception& failure) {
    *error = tunableop::Copy(failure.what());
    return static_cast<int>(tunableop::StatusCode::kInternal);
  } catch (...) {
    return static_cast<int>(tunableop::StatusCode::kInternal);
  }
}
