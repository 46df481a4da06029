// libamdhip64: copies, streams, events and graphs.
#include <cstddef>
#include <cstdint>

#include "core/copy.h"
#include "core/error.h"
#include "core/stream.h"
#include "core/vendor_error.h"

using simgpu::Err;
using simgpu::Returned;

namespace {

// hipMemcpyKind is the same list; hipMemcpyDeviceToDeviceNoCU stands apart.
constexpr int kDeviceToDeviceNoCu = 1024;

int CopyOf(void* to, const void* from, size_t bytes, int kind, void* stream, bool synchronous) {
  if (kind == kDeviceToDeviceNoCu) kind = 3;
  if (kind < 0 || kind > 4) return Returned(Err::kInvalidDirection);
  return Returned(
      simgpu::Copy(to, from, bytes, static_cast<simgpu::Direction>(kind), stream, synchronous));
}

}  // namespace

extern "C" {

SIM_API int hipMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
  return CopyOf(to, from, bytes, kind, stream, false);
}
SIM_API int hipMemcpy(void* to, const void* from, size_t bytes, int kind) {
  return CopyOf(to, from, bytes, kind, nullptr, true);
}
SIM_API int hipMemcpy2DAsync(void* to, size_t to_step, const void* from, size_t from_step,
                             size_t width, size_t rows, int kind, void* stream) {
  if (kind == kDeviceToDeviceNoCu) kind = 3;
  if (kind < 0 || kind > 4) return Returned(Err::kInvalidDirection);
  return Returned(simgpu::CopyRows(to, to_step, from, from_step, width, rows,
                                   static_cast<simgpu::Direction>(kind), stream));
}
SIM_API int hipMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, void* stream) {
  return CopyOf(to, from, bytes, 3, stream, false);
}
SIM_API int hipMemsetAsync(void* memory, int value, size_t bytes, void* stream) {
  return Returned(simgpu::Fill(memory, value, bytes, stream));
}
SIM_API int hipMemset(void* memory, int value, size_t bytes) {
  return Returned(simgpu::Fill(memory, value, bytes, nullptr));
}

SIM_API int hipStreamCreateWithFlags(void** stream, unsigned flags) {
  if (flags > 1) return Returned(Err::kInvalidValue);
  return Returned(simgpu::CreateStream(flags == 0, stream));
}
SIM_API int hipStreamCreateWithPriority(void** stream, unsigned flags, int) {
  return hipStreamCreateWithFlags(stream, flags);
}
SIM_API int hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 1;
  *greatest = -1;
  return 0;
}
SIM_API int hipStreamDestroy(void* stream) { return Returned(simgpu::DestroyStream(stream)); }
SIM_API int hipStreamSynchronize(void* stream) {
  return Returned(simgpu::SynchronizeStream(stream));
}
SIM_API int hipStreamQuery(void* stream) { return Returned(simgpu::QueryStream(stream)); }
SIM_API int hipStreamWaitEvent(void* stream, void* event, unsigned flags) {
  if (flags > 1) return Returned(Err::kInvalidValue);
  return Returned(simgpu::WaitEvent(stream, event));
}
SIM_API int hipDeviceSynchronize() { return Returned(simgpu::SynchronizeCard()); }

SIM_API int hipStreamIsCapturing(void* stream, int* status) {
  return Returned(simgpu::IsCapturing(stream, status));
}
SIM_API int hipStreamGetCaptureInfo(void* stream, int* status, unsigned long long* id) {
  if (id != nullptr) *id = 1;
  return Returned(simgpu::IsCapturing(stream, status));
}
SIM_API int hipThreadExchangeStreamCaptureMode(int* mode) {
  return Returned(simgpu::ExchangeCaptureMode(mode));
}
SIM_API int hipStreamBeginCapture(void* stream, int mode) {
  return Returned(simgpu::BeginCapture(stream, mode));
}
SIM_API int hipStreamEndCapture(void* stream, void** graph) {
  return Returned(simgpu::EndCapture(stream, graph));
}
SIM_API int hipGraphInstantiate(void** executable, void* graph, void** error_node, char*, size_t) {
  if (error_node != nullptr) *error_node = nullptr;
  return Returned(simgpu::Instantiate(graph, executable));
}
SIM_API int hipGraphLaunch(void* executable, void* stream) {
  return Returned(simgpu::LaunchGraph(executable, stream));
}
SIM_API int hipGraphDestroy(void* graph) { return Returned(simgpu::DestroyGraph(graph)); }
SIM_API int hipGraphExecDestroy(void* executable) {
  return Returned(simgpu::DestroyExecutable(executable));
}

SIM_API int hipEventCreateWithFlags(void** event, unsigned flags) {
  return Returned(simgpu::CreateEvent((flags & 2) == 0, event));
}
SIM_API int hipEventCreate(void** event) { return Returned(simgpu::CreateEvent(true, event)); }
SIM_API int hipEventDestroy(void* event) { return Returned(simgpu::DestroyEvent(event)); }
SIM_API int hipEventRecord(void* event, void* stream) {
  return Returned(simgpu::RecordEvent(event, stream));
}
SIM_API int hipEventSynchronize(void* event) { return Returned(simgpu::SynchronizeEvent(event)); }
SIM_API int hipEventQuery(void* event) { return Returned(simgpu::QueryEvent(event)); }
SIM_API int hipEventElapsedTime(float* ms, void* begin, void* end) {
  return Returned(simgpu::ElapsedMs(begin, end, ms));
}

}  // extern "C"
