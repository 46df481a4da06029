// libcudart: copies, streams, events and graphs.
#include <cstddef>

#include "core/copy.h"
#include "core/error.h"
#include "core/faults.h"
#include "core/flavour.h"
#include "core/stream.h"
#include "core/vendor_error.h"

using simgpu::Err;
using simgpu::Returned;

namespace {

// cudaMemcpyKind is the same list.
bool Known(int kind) { return kind >= 0 && kind <= 4; }

}  // namespace

extern "C" {

SIM_API int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
  if (!Known(kind)) return Returned(Err::kInvalidDirection);
  return Returned(
      simgpu::Copy(to, from, bytes, static_cast<simgpu::Direction>(kind), stream, false));
}
SIM_API int cudaMemcpy(void* to, const void* from, size_t bytes, int kind) {
  if (!Known(kind)) return Returned(Err::kInvalidDirection);
  return Returned(
      simgpu::Copy(to, from, bytes, static_cast<simgpu::Direction>(kind), nullptr, true));
}
SIM_API int cudaMemcpy2DAsync(void* to, size_t to_step, const void* from, size_t from_step,
                              size_t width, size_t rows, int kind, void* stream) {
  if (!Known(kind)) return Returned(Err::kInvalidDirection);
  return Returned(simgpu::CopyRows(to, to_step, from, from_step, width, rows,
                                   static_cast<simgpu::Direction>(kind), stream));
}
SIM_API int cudaMemsetAsync(void* memory, int value, size_t bytes, void* stream) {
  return Returned(simgpu::Fill(memory, value, bytes, stream));
}

SIM_API int cudaStreamCreateWithFlags(void** stream, unsigned flags) {
  if (flags > 1) return Returned(Err::kInvalidValue);
  return Returned(simgpu::CreateStream(flags == 0, stream));
}
SIM_API int cudaStreamDestroy(void* stream) { return Returned(simgpu::DestroyStream(stream)); }
SIM_API int cudaStreamSynchronize(void* stream) {
  return Returned(simgpu::SynchronizeStream(stream));
}
SIM_API int cudaStreamQuery(void* stream) { return Returned(simgpu::QueryStream(stream)); }
SIM_API int cudaStreamWaitEvent(void* stream, void* event, unsigned flags) {
  if (flags > 1) return Returned(Err::kInvalidValue);
  return Returned(simgpu::WaitEvent(stream, event));
}
SIM_API int cudaDeviceSynchronize() { return Returned(simgpu::SynchronizeCard()); }

SIM_API int cudaStreamIsCapturing(void* stream, int* status) {
  return Returned(simgpu::IsCapturing(stream, status));
}
SIM_API int cudaThreadExchangeStreamCaptureMode(int* mode) {
  return Returned(simgpu::ExchangeCaptureMode(mode));
}
SIM_API int cudaStreamBeginCapture(void* stream, int mode) {
  return Returned(simgpu::BeginCapture(stream, mode));
}
SIM_API int cudaStreamEndCapture(void* stream, void** graph) {
  return Returned(simgpu::EndCapture(stream, graph));
}
SIM_API int cudaGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  return Returned(simgpu::Instantiate(graph, executable));
}
// CUDA 12 changed what this name takes, so that nobody who knows only the name can call it.
SIM_API int cudaGraphInstantiate(void** executable, void* graph, unsigned long long) {
  simgpu::Misuse("cudaGraphInstantiate");
  return Returned(simgpu::Instantiate(graph, executable));
}
SIM_API int cudaGraphLaunch(void* executable, void* stream) {
  return Returned(simgpu::LaunchGraph(executable, stream));
}
SIM_API int cudaGraphDestroy(void* graph) { return Returned(simgpu::DestroyGraph(graph)); }
SIM_API int cudaGraphExecDestroy(void* executable) {
  return Returned(simgpu::DestroyExecutable(executable));
}

SIM_API int cudaEventCreateWithFlags(void** event, unsigned flags) {
  if (flags > 7) return Returned(Err::kInvalidValue);
  return Returned(simgpu::CreateEvent((flags & 2) == 0, event));
}
SIM_API int cudaEventDestroy(void* event) { return Returned(simgpu::DestroyEvent(event)); }
SIM_API int cudaEventRecord(void* event, void* stream) {
  return Returned(simgpu::RecordEvent(event, stream));
}
SIM_API int cudaEventSynchronize(void* event) { return Returned(simgpu::SynchronizeEvent(event)); }
SIM_API int cudaEventQuery(void* event) { return Returned(simgpu::QueryEvent(event)); }
SIM_API int cudaEventElapsedTime(float* ms, void* begin, void* end) {
  return Returned(simgpu::ElapsedMs(begin, end, ms));
}

}  // extern "C"
