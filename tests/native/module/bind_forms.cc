#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gemm/device_memory.h"
#include "gemm/device_queue.h"
#include "module/fake_card.h"
#include "module/module.h"
#include "provider/form_choices.h"
#include "tuner/form_race.h"

namespace py = pybind11;

namespace tunableop::bindings {
namespace {

// A form of the fake card: what it takes, what it leaves, and what goes wrong.
struct FakeForm {
  std::string name;
  double ms;
  double warm_ms;
  double noise;
  int64_t after;       // calls without the defect
  std::string defect;  // "", "error", "hangs", "loses_card"
  int64_t launches;    // of its kernels
  std::vector<py::array> answers;
  std::mt19937_64 random;
  int64_t calls = 0;
};

template <typename T>
T Get(const py::dict& spec, const char* name, const T& missing) {
  return spec.contains(name) ? py::cast<T>(spec[name]) : missing;
}

Status RunForm(FakeForm& form, const FakeCard& card, NativeStream stream,
               const std::vector<FormAnswer>& answers) {
  const std::string_view defect = form.calls++ >= form.after ? form.defect : std::string_view();
  if (defect == "error") return {StatusCode::kInternal, "simulated failure"};
  const double factor =
      form.noise > 0.0 ? std::exp(form.noise * std::normal_distribution<double>()(form.random)) : 1;
  for (int64_t i = 1; i < form.launches; ++i) {
    TUNABLEOP_RETURN_IF_ERROR(card.Launch(stream, 0.0, 0.0, 0.0));
  }
  TUNABLEOP_RETURN_IF_ERROR(card.Launch(stream, form.ms * factor, form.warm_ms * factor, 0.0));
  if (defect == "hangs") card.Hang(stream);
  if (defect == "loses_card") card.Lose("an illegal memory access was encountered");
  for (size_t i = 0; i < form.answers.size(); ++i) {
    std::memcpy(answers[i].data, form.answers[i].data(),
                static_cast<size_t>(form.answers[i].nbytes()));
  }
  return Status::Ok();
}

py::dict RaceOnCard(const std::vector<py::dict>& specs, const Problem& like,
                    const py::dict& card_spec, const py::kwargs& kwargs) {
  FakeCardScript script;
  script.capturing = Get(card_spec, "capturing", false);
  script.cache_bytes = Get(card_spec, "cache_bytes", script.cache_bytes);
  script.memory_bytes = Get(card_spec, "memory_bytes", script.memory_bytes);
  script.busy_ms = Get(card_spec, "busy_ms", 0.0);
  const auto card = std::make_shared<const FakeCard>(script);
  std::vector<FakeForm> fakes;
  for (const py::dict& spec : specs) {
    const double ms = Get(spec, "ms", 1.0);
    fakes.push_back({py::cast<std::string>(spec["name"]), ms, Get(spec, "warm_ms", ms),
                     Get(spec, "noise", 0.0), Get(spec, "after", int64_t{0}),
                     Get(spec, "defect", std::string()), Get(spec, "launches", int64_t{1}),
                     py::cast<std::vector<py::array>>(spec["answers"]),
                     std::mt19937_64(Get(spec, "seed", uint64_t{1}))});
  }
  std::vector<DeviceBuffer> buffers;
  std::vector<FormAnswer> answers;
  for (const py::array& answer : fakes[0].answers) {
    Result<DeviceBuffer> buffer =
        DeviceBuffer::Create(card, static_cast<size_t>(answer.nbytes()) + 64);
    if (!buffer.ok()) ThrowIfError(buffer.TakeStatus());
    buffers.push_back(std::move(buffer).value());
    answers.push_back({buffers.back().data(), answer.shape(0), answer.shape(1)});
  }
  Result<DeviceStream> stream = DeviceStream::Create(card);
  if (!stream.ok()) ThrowIfError(stream.TakeStatus());
  const DeviceQueue queue(card, stream.value().get(), DeviceBuffer());
  std::vector<Form> forms;
  for (FakeForm& fake : fakes) {
    forms.push_back({fake.name, [&fake, &card, &queue, &answers] {
                       return RunForm(fake, *card, queue.stream(), answers);
                     }});
  }
  FormOptions options;
  for (const auto& [key, value] : kwargs) {
    const auto name = py::cast<std::string>(key);
    if (name == "min_gain") {
      options.min_gain = py::cast<double>(value);
    } else if (name == "max_ms") {
      options.max_ms = py::cast<double>(value);
    } else if (name == "verify") {
      options.verify = py::cast<bool>(value);
    } else if (name == "launched") {
      options.launched = py::cast<bool>(value);
    } else if (name == "cold") {
      options.cold = py::cast<bool>(value);
    } else if (name == "max_bytes") {
      options.max_bytes = py::cast<size_t>(value);
    } else {
      throw py::type_error("unknown option of a race of forms: " + name);
    }
  }
  options.now = [card] { return card->NowNs(); };
  const int64_t begin = card->NowNs();
  const FakeCard::Stats before = card->stats();
  Result<FormResult> result = RaceForms(forms, answers, like, queue, options);
  py::dict d;
  d["spent_ms"] = static_cast<double>(card->NowNs() - begin) * 1e-6;
  d["left"] = card->stats().allocated - before.allocated;
  d["left_events"] = card->stats().events - before.events;
  std::vector<int64_t> calls;
  for (const FakeForm& fake : fakes) calls.push_back(fake.calls);
  d["calls"] = calls;
  if (!result.ok()) {
    d["error"] = std::string(result.status().message());
    return d;
  }
  d["winner"] = fakes[result.value().winner].name;
  d["winner_ms"] = result.value().winner_ms;
  d["usual_ms"] = result.value().usual_ms;
  d["cold"] = result.value().cold;
  d["why"] = result.value().why;
  d["refused"] = result.value().refused;
  return d;
}

constexpr const char* kForms[] = {"one", "two"};
constexpr const char* kSizes[] = {"M", "N"};
constexpr FormGroup kGroup = {"Group", kForms, kSizes};

// FormChoices of one group, keyed by two sizes.
class Choices {
 public:
  static FormKey KeyOf(int64_t m, int64_t n) {
    return {&kGroup, DataType::kFloat16, Precision::kTf32, {m, n}};
  }
  // The form that runs; none: not met; negative: not settled.
  std::optional<int> Find(int64_t m, int64_t n) const {
    const FormChoice* choice = choices_.Find(KeyOf(m, n));
    if (choice == nullptr) return std::nullopt;
    const int form = static_cast<int>(choice->form.load());
    return choice->settled ? form : -1 - form;
  }
  bool Add(int64_t m, int64_t n, size_t usual) {
    return choices_.FindOrAdd(KeyOf(m, n), usual) != nullptr;
  }
  void Take(const std::string& shape, const std::string& form) {
    choices_.Take({"Group", shape, form, "one", "", 1.0, 2.0, false, 1}, "a file");
  }
  py::tuple Adopt(int64_t m, int64_t n) {
    bool changed = false;
    std::string refused;
    const bool adopted = choices_.Adopt(*choices_.FindOrAdd(KeyOf(m, n), 0), changed, refused);
    return py::make_tuple(adopted, changed, refused);
  }
  bool Put(int64_t m, int64_t n, size_t form, double ms) {
    FormChoice* choice = choices_.FindOrAdd(KeyOf(m, n), 0);
    return choices_.Put(
        *choice, form, {"Group", choice->shape, kForms[form], "one", "", ms, 2.0, false, 1}, "why");
  }
  void SettleUnknown(int64_t m, int64_t n) {
    choices_.SettleUnknown(*choices_.FindOrAdd(KeyOf(m, n), 0));
  }
  void Unsettle() { choices_.Unsettle(); }
  std::vector<std::string> Records() const {
    std::vector<std::string> lines;
    for (const FormRecord& r : choices_.Records()) lines.push_back(r.shape + ": " + r.form);
    return lines;
  }
  std::vector<std::string> Views() const {
    std::vector<std::string> lines;
    for (const FormChoices::View& v : choices_.Views()) {
      lines.push_back(v.record.shape + ": " + v.record.form + ", " + v.why);
    }
    return lines;
  }

 private:
  FormChoices choices_;
};

}  // namespace

void BindForms(py::module_& module) {
  module.def("race_forms", &RaceOnCard, py::arg("forms"), py::arg("like"),
             py::arg("card") = py::dict(),
             "Races forms on a fake card with a virtual clock; options are those of FormOptions.");
  py::class_<Choices>(module, "FormChoices")
      .def(py::init<>())
      .def("find", &Choices::Find)
      .def("add", &Choices::Add)
      .def("take", &Choices::Take)
      .def("adopt", &Choices::Adopt)
      .def("put", &Choices::Put)
      .def("settle_unknown", &Choices::SettleUnknown)
      .def("unsettle", &Choices::Unsettle)
      .def("records", &Choices::Records)
      .def("views", &Choices::Views)
      .def_property_readonly_static("most", [](const py::object&) { return FormChoices::kMost; });
}

}  // namespace tunableop::bindings
