#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gemm/device_memory.h"
#include "gemm/device_queue.h"
#include "module/fake_card.h"
#include "module/fake_card_backend.h"
#include "module/module.h"
#include "module/tuner_arguments.h"
#include "module/tuning_doubles.h"
#include "tuner/device_tuner.h"
#include "tuner/measure_pool.h"
#include "tuner/operand_ranges.h"

namespace py = pybind11;

namespace tunableop::bindings {
namespace {

// Sets the member that `key` names; false: it names none of these.
template <typename Spec, typename Member>
bool Set(Spec& spec, const std::string& key, const py::handle& value, const char* name,
         Member Spec::* member) {
  if (key != name) return false;
  spec.*member = py::cast<Member>(value);
  return true;
}

FakeCardKernel ToCardKernel(const py::dict& spec) {
  FakeCardKernel k;
  for (const auto& [key, v] : spec) {
    const auto name = py::cast<std::string>(key);
    using K = FakeCardKernel;
    const bool known =
        Set(k, name, v, "name", &K::name) || Set(k, name, v, "ms", &K::ms) ||
        Set(k, name, v, "warm_ms", &K::warm_ms) || Set(k, name, v, "first_ms", &K::first_ms) ||
        Set(k, name, v, "noise", &K::noise) || Set(k, name, v, "spikes", &K::spikes) ||
        Set(k, name, v, "seed", &K::seed) || Set(k, name, v, "after", &K::after) ||
        Set(k, name, v, "later_factor", &K::later_factor) ||
        Set(k, name, v, "listed", &K::listed) ||
        Set(k, name, v, "workspace_bytes", &K::workspace_bytes) ||
        Set(k, name, v, "transposed", &K::transposed) || Set(k, name, v, "defect", &K::defect);
    if (!known) throw py::type_error("unknown field of a kernel of the fake card: " + name);
  }
  return k;
}

FakeCardScript ToScript(const py::dict& spec) {
  FakeCardScript s;
  for (const auto& [key, v] : spec) {
    const auto name = py::cast<std::string>(key);
    using S = FakeCardScript;
    const bool known =
        Set(s, name, v, "memory_bytes", &S::memory_bytes) ||
        Set(s, name, v, "cache_bytes", &S::cache_bytes) ||
        Set(s, name, v, "launch_us", &S::launch_us) || Set(s, name, v, "query_us", &S::query_us) ||
        Set(s, name, v, "bytes_per_us", &S::bytes_per_us) ||
        Set(s, name, v, "resolution_us", &S::resolution_us) ||
        Set(s, name, v, "busy_ms", &S::busy_ms) || Set(s, name, v, "capturing", &S::capturing) ||
        Set(s, name, v, "fail_allocation", &S::fail_allocation) ||
        Set(s, name, v, "no_pinned", &S::no_pinned) || Set(s, name, v, "at_once", &S::at_once);
    if (!known) throw py::type_error("unknown field of the fake card: " + name);
  }
  return s;
}

DeviceBuffer Upload(const std::shared_ptr<const FakeCard>& card, const Range& range) {
  // A small array may share no page with another.
  Result<DeviceBuffer> buffer = DeviceBuffer::Create(card, range.bytes + 1);
  if (!buffer.ok()) ThrowIfError(buffer.TakeStatus());
  std::memcpy(buffer.value().data(), range.data, range.bytes);
  return std::move(buffer.value());
}

py::dict StatsToDict(const FakeCard::Stats& stats) {
  py::dict d;
  d["allocated"] = stats.allocated;
  d["most_allocated"] = stats.most_allocated;
  d["pinned"] = stats.pinned;
  d["streams"] = stats.streams;
  d["events"] = stats.events;
  d["given_up"] = stats.given_up;
  d["freed_while_hung"] = stats.freed_while_hung;
  d["waited_while_hung"] = stats.waited_while_hung;
  d["filled_bytes"] = stats.filled_bytes;
  return d;
}

// Operands of a problem in the memory of a card.
struct OnCard {
  OnCard(const std::shared_ptr<const FakeCard>& card, const Problem& problem,
         const Operands& operands)
      : view(operands) {
    const OperandRanges ranges = RangesOf(problem, operands);
    const auto move = [&](const Range& range, DeviceBuffer& buffer, const void*& pointer) {
      if (range.data == nullptr || range.bytes == 0) return;
      buffer = Upload(card, range);
      pointer = buffer.data();
    };
    const void* c_pointer = operands.c;
    move(ranges.a, a, view.a);
    move(ranges.b, b, view.b);
    move(ranges.c, c, c_pointer);
    move(ranges.bias, bias, view.bias);
    view.c = const_cast<void*>(c_pointer);
  }
  DeviceBuffer a;
  DeviceBuffer b;
  DeviceBuffer c;
  DeviceBuffer bias;
  Operands view;
};

py::dict TuneOnCard(const Problem& problem, const Array& a, const Array& b, const Array& c,
                    const Array& bias, float alpha, float beta,
                    const std::vector<std::vector<py::dict>>& libraries, const py::dict& card_spec,
                    size_t workspace_bytes, double prepare_ms, bool transposes, int threads,
                    const std::optional<py::dict>& pacer, const py::kwargs& kwargs) {
  TunerOptions options = MakeOptions(kwargs);
  options.remember_wrong = kwargs.contains("remember_wrong") && options.remember_wrong;
  FakeCardScript script = ToScript(card_spec);
  const int64_t fail_allocation = script.fail_allocation;
  script.fail_allocation = 0;
  const Operands operands = MakeOperands(problem, a, b, c, bias, alpha, beta);
  // What the test itself puts on the card: operands, and the session's workspace.
  constexpr int64_t kOurs = 5;
  if (fail_allocation > 0) script.fail_allocation = kOurs + fail_allocation;
  const auto card = std::make_shared<const FakeCard>(script);
  const OnCard on_card(card, problem, operands);
  Result<DeviceBuffer> workspace = DeviceBuffer::Create(card, std::max<size_t>(1, workspace_bytes));
  if (!workspace.ok()) ThrowIfError(workspace.TakeStatus());
  Result<DeviceStream> stream = DeviceStream::Create(card);
  if (!stream.ok()) ThrowIfError(stream.TakeStatus());
  const DeviceQueue queue(card, stream.value().get(),
                          workspace_bytes == 0 ? DeviceBuffer() : std::move(workspace.value()));
  std::vector<std::shared_ptr<const FakeCardBackend>> fakes;
  for (const std::vector<py::dict>& specs : libraries) {
    std::vector<FakeCardKernel> kernels;
    for (const py::dict& spec : specs) kernels.push_back(ToCardKernel(spec));
    fakes.push_back(std::make_shared<FakeCardBackend>(
        "sim" + std::to_string(fakes.size()), std::move(kernels), card, prepare_ms, transposes));
  }
  const std::vector<std::shared_ptr<const Backend>> backends(fakes.begin(), fakes.end());
  options.now = [card] { return card->NowNs(); };
  RecordingJournal journal;
  options.journal = &journal;
  PacerScript paces;
  if (pacer) {
    paces.cancel_after = py::cast<long>((*pacer)["cancel_after"]);
  }
  ScriptedPacer scripted(paces, [&](double ms) { card->Wait(ms); }, [](double) {});
  if (pacer) options.pacer = &scripted;
  const FakeCard::Stats before = card->stats();
  const int64_t begin = card->NowNs();
  MeasurePool pool(threads);
  Result<TuneResult> result = [&] {
    const py::gil_scoped_release released;
    return TuneOnDevice(problem, on_card.view, queue, pool, backends, options);
  }();
  py::dict d;
  if (result.ok()) {
    d = ToDict(result.value());
  } else {
    d["status"] = std::string(StatusCodeName(result.status().code()));
    d["message"] = std::string(result.status().message());
  }
  py::list calls;
  for (const auto& fake : fakes) calls.append(fake->calls());
  d["calls"] = calls;
  d["journal"] = journal.lines();
  d["wall_ms"] = static_cast<double>(card->NowNs() - begin) * 1e-6;
  d["before"] = StatsToDict(before);
  d["after"] = StatsToDict(card->stats());
  d["left_c"] = on_card.c.data() == nullptr ||
                std::memcmp(on_card.c.data(), operands.c, RangesOf(problem, operands).c.bytes) == 0;
  return d;
}

}  // namespace

void BindDeviceTuner(py::module_& module) {
  module.def("tune_on_card", &TuneOnCard, py::arg("problem"), py::arg("a"), py::arg("b"),
             py::arg("c") = py::none(), py::arg("bias") = py::none(), py::arg("alpha") = 1.0F,
             py::arg("beta") = 0.0F, py::kw_only(), py::arg("libraries"),
             py::arg("card") = py::dict(), py::arg("workspace_bytes") = size_t{1} << 20,
             py::arg("prepare_ms") = 0.0, py::arg("transposes") = false, py::arg("threads") = 1,
             py::arg("pacer") = py::none(),
             "Tunes on a fake card: a list of kernels (dicts) for each library. An error is "
             "returned (status, message), not raised.");
}

}  // namespace tunableop::bindings
