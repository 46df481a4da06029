// RuntimeDevice: recording what is queued on a stream, and launching it as a whole.
#include "backends/gpu/runtime_device.h"

namespace tunableop {

Status RuntimeDevice::BeginCapture(NativeStream stream) const {
  if (lost()) return Lost();
  if (!api_.HasGraphs()) {
    return {StatusCode::kNotSupported, std::string(backend()) + ":" + std::to_string(ordinal_) +
                                           ": the runtime has no graphs"};
  }
  const CurrentDevice current(*this);
  // What this thread must not do meanwhile spoils the capture; other threads are left alone.
  const int code = api_.StreamBeginCapture(stream, runtime_code::kCaptureOfThread);
  if (code != runtime_code::kSuccess) Note(code);
  return Check(code, "beginning to capture a graph");
}

Result<NativeGraph> RuntimeDevice::EndCapture(NativeStream stream) const {
  if (lost()) return Lost();
  const CurrentDevice current(*this);
  void* recorded = nullptr;
  int code = api_.StreamEndCapture(stream, &recorded);
  if (code != runtime_code::kSuccess) Note(code);
  TUNABLEOP_RETURN_IF_ERROR(Check(code, "ending the capture of a graph"));
  NativeGraph graph = nullptr;
  {
    // It allocates, which spoils what other threads capture.
    const CurrentAside aside(*this);
    code = api_.Instantiate(&graph, recorded);
    if (code != runtime_code::kSuccess) Note(code);
    if (api_.GraphDestroy(recorded) != runtime_code::kSuccess) api_.GetLastError();
  }
  TUNABLEOP_RETURN_IF_ERROR(Check(code, "making a captured graph executable"));
  return graph;
}

Status RuntimeDevice::LaunchGraph(NativeGraph graph, NativeStream stream) const {
  if (lost()) return Lost();
  const CurrentDevice current(*this);
  const int code = api_.GraphLaunch(graph, stream);
  if (code != runtime_code::kSuccess) Note(code);
  return Check(code, "launching a graph");
}

void RuntimeDevice::DestroyGraph(NativeGraph graph) const noexcept {
  // Of a card that is stuck it may be running: it stays.
  if (graph == nullptr || lost() || stuck()) return;
  const CurrentAside aside(*this);
  const int code = api_.GraphExecDestroy(graph);
  if (code != runtime_code::kSuccess) Note(code);
}

}  // namespace tunableop
