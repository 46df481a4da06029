// Streams, events and graphs of captured work.
//
// Every stream has a thread of its own, which runs what was queued in order. Time is simulated: an
// operation returns what it costs, and a stream's clock advances by that. The null stream waits for
// all blocking streams of its card, and they wait for it. One lock guards all queues: simplicity is
// worth more here than speed.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "core/card.h"
#include "core/error.h"

namespace simgpu {

// Runs on the stream's thread and returns the simulated milliseconds. Errors go to card.lost.
using Work = std::function<double(Card&)>;

// One recording of an event.
struct Mark {
  bool done = false;
  double at_ms = 0;
};

struct Capture;

struct Operation {
  Work work;                                                        // may be empty
  std::shared_ptr<Mark> records;                                    // done after the work
  std::shared_ptr<Mark> waits;                                      // before the work
  std::vector<std::pair<std::shared_ptr<Stream>, uint64_t>> after;  // tickets to wait for
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  static std::shared_ptr<Stream> MakeLegacy(Card& card);
  Stream(Card& owner, bool blocks, bool legacy) : card(owner), blocking(blocks), null(legacy) {}

  Card& card;
  const bool blocking;  // waits for the null stream
  const bool null;

  // Calls that queue a kernel with a workspace on it right now: see LaunchGemm.
  std::atomic<int> launching{0};

  // Guarded by the one lock.
  std::deque<Operation> queue;
  uint64_t queued = 0;  // tickets
  uint64_t finished = 0;
  bool started = false;
  bool destroyed = false;
  double clock_ms = 0;
  std::shared_ptr<Capture> capture;
};

// A handle is what the caller got from CreateStream; null is the current card's null stream.
Err CreateStream(bool blocking, void** handle);
Err DestroyStream(void* handle);
// kInvalidHandle: no such stream.
SIM_API Err FindStream(void* handle, std::shared_ptr<Stream>* stream);
// Queues the work, or adds it to the graph that is being captured. `host_waits`: returns when it is
// done, as copies to ordinary memory do (not while capturing).
SIM_API Err Enqueue(const std::shared_ptr<Stream>& stream, Work work, bool host_waits = false);
Err SynchronizeStream(void* handle);
Err QueryStream(void* handle);
SIM_API Err SynchronizeCard();
// A place in the queue, to ask later whether everything before it is done.
SIM_API uint64_t Ticket(const std::shared_ptr<Stream>& stream);
SIM_API bool IsDone(const std::shared_ptr<Stream>& stream, uint64_t ticket);

Err CreateEvent(bool timing, void** handle);
Err DestroyEvent(void* handle);
Err RecordEvent(void* event, void* stream);
Err WaitEvent(void* stream, void* event);
Err QueryEvent(void* event);
Err SynchronizeEvent(void* event);
Err ElapsedMs(void* begin, void* end, float* ms);

// 0 none, 1 active, 2 invalidated.
Err IsCapturing(void* stream, int* status);
Err BeginCapture(void* stream, int mode);  // 0 global, 1 of this thread, 2 relaxed
Err ExchangeCaptureMode(int* mode);        // of this thread: whose captures it minds
Err EndCapture(void* stream, void** graph);
Err Instantiate(void* graph, void** executable);
Err LaunchGraph(void* executable, void* stream);
Err DestroyGraph(void* graph);
Err DestroyExecutable(void* executable);
// For calls that may not be made while a graph is captured: fails and spoils the capture.
SIM_API Err ForbiddenInCapture();

}  // namespace simgpu
