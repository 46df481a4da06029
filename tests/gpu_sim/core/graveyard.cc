#include "core/graveyard.h"

#include <cstddef>
#include <deque>
#include <mutex>
#include <utility>

namespace simgpu {

void Bury(std::shared_ptr<void> object) {
  constexpr size_t kKept = 1000;
  struct Graves {
    std::mutex mutex;
    std::deque<std::shared_ptr<void>> objects;
  };
  static auto* const graves = new Graves;
  const std::lock_guard lock(graves->mutex);
  graves->objects.push_back(std::move(object));
  if (graves->objects.size() > kKept) graves->objects.pop_front();
}

}  // namespace simgpu
