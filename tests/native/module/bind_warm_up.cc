// What a card needs some time for, on a thread of its own (provider/gpu/warm_up.h).
#include <pybind11/stl.h>

#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "module/module.h"
#include "provider/gpu/warm_up.h"

namespace py = pybind11;

namespace tunableop::bindings {
namespace {

// Steps that wait while they are held, and are noted when they begin. Step 7 throws.
class Warming {
 public:
  void Ask(size_t i) { warm_up_.Ask(i); }
  void End() { warm_up_.End(); }
  void Hold(bool held) {
    {
      const std::lock_guard lock(mutex_);
      held_ = held;
    }
    changed_.notify_all();
  }
  std::vector<size_t> begun() const {
    const std::lock_guard lock(mutex_);
    return begun_;
  }

 private:
  static constexpr size_t kThrows = 7;

  void Step(size_t i) {
    std::unique_lock lock(mutex_);
    begun_.push_back(i);
    changed_.wait(lock, [this] { return !held_; });
    if (i == kThrows) throw std::runtime_error("a step that fails");
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  std::vector<size_t> begun_;
  WarmUp warm_up_{[this](size_t i) { Step(i); }};
};

}  // namespace

void BindWarmUp(py::module_& module) {
  const py::call_guard<py::gil_scoped_release> free;
  py::class_<Warming>(module, "WarmUp")
      .def(py::init<>())
      .def("ask", &Warming::Ask, free)
      .def("end", &Warming::End, free)
      .def("hold", &Warming::Hold, free)
      .def_property_readonly("begun", &Warming::begun);
}

}  // namespace tunableop::bindings
