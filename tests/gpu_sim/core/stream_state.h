// What core/stream.cc, event.cc and graph.cc share: the lock and what lives under it.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "core/stream.h"

namespace simgpu {

struct Event {
  Card& card;
  const bool timing;
  std::shared_ptr<Mark> mark;        // null: never recorded
  std::shared_ptr<Capture> capture;  // recorded into a graph that is being captured
};

struct Graph {
  int ordinal;
  std::vector<Work> works;
};

struct Capture {
  Stream* origin = nullptr;
  int mode = 0;
  std::thread::id thread;
  bool invalid = false;
  std::shared_ptr<Graph> graph;
  std::set<Stream*> forked;    // streams that joined through an event
  std::set<Stream*> unjoined;  // of these: work was captured that the origin does not wait for
};

struct StreamState {
  std::mutex mutex;
  std::condition_variable queued;
  std::condition_variable done;
  std::map<void*, std::shared_ptr<Stream>> streams;
  std::vector<std::weak_ptr<Stream>> all;  // also those that were destroyed with work left
  std::map<void*, std::shared_ptr<Event>> events;
  std::map<void*, std::shared_ptr<Graph>> graphs;
  std::map<void*, std::shared_ptr<Graph>> executables;
  std::set<std::shared_ptr<Capture>> captures;
};

StreamState& TheStreams();
// The lock is held in all of these.
std::shared_ptr<Stream> Find(StreamState& state, void* handle);
std::shared_ptr<Event> FindEvent(StreamState& state, void* handle);
void Push(StreamState& state, const std::shared_ptr<Stream>& stream, Operation operation);
// What keeps a call out while some capture goes on; spoils that capture.
Err Forbid(StreamState& state, const Stream* stream);
// A stream of it went away.
void Abandon(StreamState& state, const std::shared_ptr<Capture>& capture);
// Work of a blocking or null stream that a capture forbids.
Err Implicit(StreamState& state, const Stream& stream);

}  // namespace simgpu
