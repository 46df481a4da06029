#include "provider/control.h"

#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/cpu/openblas_library.h"
#include "backends/gpu/devices.h"
#include "gemm/status.h"
#include "provider/fusion/fusions.h"
#include "provider/gpu/cards.h"
#include "provider/operators.h"
#include "provider/ort_runtime.h"
#include "provider/selftest.h"
#include "provider/sessions.h"
#include "provider/stock_check.h"
#include "provider/target.h"
#include "provider/type_name.h"
#include "tuner/rates.h"

namespace tunableop {
namespace {

using nlohmann::json;

// Carries a Status to the border, where it is caught.
class Failure : public std::runtime_error {
 public:
  Failure(StatusCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  StatusCode code() const noexcept { return code_; }

 private:
  StatusCode code_;
};

// Names in a model may hold any bytes; those that are not UTF-8 become U+FFFD.
std::string Dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string Text(const json& arguments, const char* key) {
  const auto found = arguments.find(key);
  if (found == arguments.end() || !found->is_string()) {
    throw Failure(StatusCode::kInvalidArgument,
                  std::string("control argument '") + key + "' is missing");
  }
  return found->get<std::string>();
}

std::shared_ptr<SessionState> Session(const json& arguments) {
  std::shared_ptr<SessionState> state = Sessions().Find(Text(arguments, "token"));
  if (state == nullptr) throw Failure(StatusCode::kNotFound, "the session is gone");
  return state;
}

void ThrowIfError(const Status& status) {
  if (!status.ok()) throw Failure(status.code(), std::string(status.message()));
}

json Version() {
  return {{"version", TUNABLEOP_VERSION},
          {"onnxruntime", Ort().runtime_version},
          {"api_version", Ort().version}};
}

// What a session could run on, and what of a file's results it would then use.
json Targets() {
  std::vector<Target> targets = {Target::Cpu()};
  for (const Gpu& gpu : Gpus()) {
    if (!gpu.backends.empty()) targets.push_back(Target::Card(gpu));
  }
  json list = json::array();
  for (const Target& target : targets) {
    const Fingerprint& machine = target.fingerprint();
    json libraries = json::object();
    for (const auto& backend : target.backends()) {
      libraries[std::string(backend->library())] = backend->identity();
    }
    list.push_back({{"device", target.Name()},
                    {"fingerprint",
                     {{"device", machine.device},
                      {"model", machine.model},
                      {"features", machine.features},
                      {"cores", machine.cores}}},
                    {"libraries", libraries}});
  }
  return list;
}

json Stats(const SessionState& state) {
  const SessionStats stats = state.Stats();
  return {{"hits", stats.hits},
          {"misses", stats.misses},
          {"tuned", stats.tuned},
          {"tuning_seconds", stats.tuning_seconds},
          {"evicted", stats.evicted},
          {"entries", stats.entries},
          {"denied", stats.denied},
          {"fallbacks", stats.fallbacks},
          {"pending", stats.pending},
          {"deferred", stats.deferred},
          {"stale", stats.stale},
          {"revalidated", stats.revalidated},
          {"session_seconds", stats.session_seconds},
          {"saved_seconds", stats.saved_seconds},
          {"forms", stats.forms},
          {"tuning", stats.tuning},
          {"device", state.target().Name()},
          {"rejected", stats.rejected}};
}

// Of a session that is to have none, too.
json GraphStats(const std::string& token) {
  const std::shared_ptr<GpuSession> gpu = Sessions().FindGpu(token);
  const bool enabled = gpu != nullptr && gpu->graphs().enabled();
  const Graphs::Stats stats = enabled ? gpu->graphs().stats() : Graphs::Stats();
  const Graphs::Limits limits = enabled ? gpu->graphs().limits() : Graphs::Limits();
  return {{"enabled", enabled},
          {"max_graphs", limits.graphs},
          {"graph_memory", limits.bytes},
          {"alive", stats.alive},
          {"captured", stats.captured},
          {"replayed", stats.replayed},
          {"recaptured", stats.recaptured},
          {"discarded", stats.discarded},
          {"evicted", stats.evicted},
          {"bytes", stats.bytes},
          {"refused", stats.refused}};
}

json Graph(const json& arguments, bool release) {
  const std::shared_ptr<GpuSession> gpu = Sessions().FindGpu(Text(arguments, "token"));
  if (gpu == nullptr) throw Failure(StatusCode::kNotFound, "the session is gone");
  const int id = arguments.value("id", 0);
  if (release) {
    gpu->graphs().Release(id, arguments.value("for_room", false));
    return json::object();
  }
  const Graphs::View view = gpu->graphs().Look(id);
  return {{"captured", view.captured}, {"bytes", view.bytes}, {"refused", view.refused}};
}

json Counters(const PerfReading& reading) {
  const auto number = [](const std::optional<double>& value) {
    return value ? json(*value) : json(nullptr);
  };
  return {{"cycles", number(reading.cycles)},
          {"instructions", number(reading.instructions)},
          {"cache_misses", number(reading.cache_misses)},
          {"unavailable", reading.unavailable}};
}

json Explain(const SessionState& state) {
  json nodes = json::array();
  json operators = json::array();
  for (const NodeDecision& decision : state.Decisions()) {
    json node = {{"graph", decision.graph},
                 {"name", decision.name},
                 {"op_type", decision.op_type},
                 {"claimed", decision.claimed},
                 {"reason", decision.reason}};
    if (decision.is_gemm) node["weight"] = decision.weight;
    (decision.is_gemm ? nodes : operators).push_back(std::move(node));
  }
  json shapes = json::array();
  for (const std::shared_ptr<const Entry>& entry : state.Entries()) {
    const Record& record = entry->record;
    const bool rates = record.winner_ms > 0.0 && state.options().measure_mode != MeasureMode::kTime;
    shapes.push_back({{"problem", ToString(record.problem)},
                      {"m", record.problem.m},
                      {"n", record.problem.n},
                      {"k", record.problem.k},
                      {"batch", record.problem.batch},
                      {"kernel", record.winner.FullName()},
                      {"default_kernel", record.default_kernel},
                      {"tuned", entry->tuned},
                      {"milliseconds", record.winner_ms},
                      {"default_milliseconds", record.default_ms},
                      {"error", record.error},
                      {"candidates", record.tried},
                      {"why", state.WhyOf(*entry)},
                      {"stock_milliseconds", record.stock_ms},
                      {"stock_wins", record.stock_wins},
                      {"cold", record.cold_b},
                      {"gflops", rates ? Gflops(record.problem, record.winner_ms) : 0.0},
                      {"gigabytes_per_second",
                       rates ? GigabytesPerSecond(record.problem, record.winner_ms) : 0.0},
                      {"clock_mhz", rates ? record.clock_mhz : 0.0},
                      {"temperature_c", rates ? record.temperature_c : 0.0},
                      {"counters", Counters(state.CountersOf(entry->hash))}});
  }
  json forms = json::array();
  for (const FormChoices::View& view : state.Forms()) {
    forms.push_back({{"group", view.record.group},
                     {"shape", view.record.shape},
                     {"form", view.record.form},
                     {"usual_form", view.record.usual_form},
                     {"measured", view.measured},
                     {"milliseconds", view.record.form_ms},
                     {"usual_milliseconds", view.record.usual_ms},
                     {"cold", view.record.cold},
                     {"why", view.why}});
  }
  return {{"nodes", nodes},
          {"operators", operators},
          {"shapes", shapes},
          {"forms", forms},
          {"notes", state.Notes()}};
}

int64_t Number(const json& arguments, const char* key, int64_t missing) {
  const auto found = arguments.find(key);
  if (found == arguments.end()) return missing;
  if (!found->is_number_integer()) {
    throw Failure(StatusCode::kInvalidArgument,
                  std::string("control argument '") + key + "' must be an integer");
  }
  return found->get<int64_t>();
}

json MeasureStock(const json& arguments) {
  StockCheck check;
  check.m = Number(arguments, "m", 1);
  check.n = Number(arguments, "n", 1);
  check.k = Number(arguments, "k", 1);
  check.batch = Number(arguments, "batch", 1);
  check.threads = Number(arguments, "threads", 1);
  check.b_constant = Number(arguments, "b_constant", 0) != 0;
  check.packed = Number(arguments, "packed", 0) != 0;
  check.shared_b = Number(arguments, "shared_b", 0) != 0;
  check.trans_a = Number(arguments, "trans_a", 0) != 0;
  check.trans_b = Number(arguments, "trans_b", 0) != 0;
  check.bias = Number(arguments, "bias", 0) != 0;
  check.alpha = static_cast<float>(Number(arguments, "alpha", 1));
  check.beta = static_cast<float>(Number(arguments, "beta", 0));
  check.relu = Number(arguments, "relu", 0) != 0;
  check.ldc_gap = Number(arguments, "ldc_gap", 0);
  check.runs = Number(arguments, "runs", 20);
  check.max_bytes = static_cast<size_t>(Number(arguments, "max_bytes", int64_t{1} << 30));
  Result<StockFigures> figures = CheckStock(check);
  if (!figures.ok()) ThrowIfError(figures.status());
  const StockFigures& found = figures.value();
  return {{"median_ms", found.median_ms},
          {"first_ms", found.first_ms},
          {"alone_ms", found.alone_ms},
          {"overhead_ms", found.overhead_ms},
          {"max_difference", found.max_difference},
          {"kernel", found.kernel},
          {"identity", found.identity}};
}

SelfTestRequest ReadSelfTest(const json& arguments) {
  return {Text(arguments, "device"), arguments.value("quick", false),
          static_cast<uint64_t>(Number(arguments, "seed", 0))};
}

json SelfTestCases(const json& arguments) {
  Result<std::vector<Problem>> problems = SelfTestProblems(ReadSelfTest(arguments));
  if (!problems.ok()) ThrowIfError(problems.status());
  return {{"cases", problems.value().size()}};
}

json SelfTestCase(const json& arguments) {
  const SelfTestRequest request = ReadSelfTest(arguments);
  Result<std::vector<Problem>> problems = SelfTestProblems(request);
  if (!problems.ok()) ThrowIfError(problems.status());
  const auto at = static_cast<size_t>(Number(arguments, "case", 0));
  if (at >= problems.value().size()) {
    throw Failure(StatusCode::kInvalidArgument, "control argument 'case' is out of range");
  }
  Result<SelfTestVerdict> verdict = RunSelfTest(request, problems.value()[at]);
  if (!verdict.ok()) ThrowIfError(verdict.status());
  json libraries = json::array();
  for (const LibraryVerdict& library : verdict.value().libraries) {
    libraries.push_back({{"library", library.library},
                         {"kernels", library.kernels},
                         {"refused", library.refused},
                         {"inexact", library.inexact},
                         {"left_out", library.left_out},
                         {"error", library.error},
                         {"failures", library.failures}});
  }
  return {{"problem", ToString(verdict.value().problem)},
          {"kind", KindOf(verdict.value().problem)},
          {"asked_by_provider", verdict.value().asked_by_provider},
          {"libraries", libraries},
          {"stopped", verdict.value().stopped}};
}

json OperatorTable() {
  json rows = json::array();
  for (const Operator& op : Operators()) {
    json types = json::array();
    constexpr int kTypes = 64;
    for (int type = 0; type < kTypes; ++type) {
      if ((op.types >> static_cast<unsigned>(type) & 1U) == 0) continue;
      types.push_back(TypeName(static_cast<ONNXTensorElementDataType>(type)));
    }
    rows.push_back({{"domain", op.domain},
                    {"op", op.op},
                    {"first", op.first},
                    {"last", op.last},
                    {"types", types}});
  }
  json fusions = json::array();
  for (const Fusion& fusion : Fusions()) fusions.push_back(fusion.op.op);
  return {{"operators", rows}, {"fusions", fusions}};
}

json SetResults(SessionState& state, const json& arguments) {
  std::vector<std::string> problems;
  const size_t taken = state.SetResults(Text(arguments, "results"), "tuning results", problems);
  return {{"taken", taken}, {"problems", problems}};
}

json LoadCache(SessionState& state, const json& arguments) {
  std::vector<std::string> problems;
  ThrowIfError(state.LoadCache(Text(arguments, "path"), problems));
  return {{"problems", problems}};
}

std::string Call(const std::string& method, const json& arguments) {
  if (method == "version") return Dump(Version());
  if (method == "targets") return Dump(Targets());
  if (method == "openblas_path") {
    SetOpenBlasSearchPath(Text(arguments, "path"));
    return "{}";
  }
  if (method == "selftest_cases") return Dump(SelfTestCases(arguments));
  if (method == "selftest_case") return Dump(SelfTestCase(arguments));
  if (method == "operators") return Dump(OperatorTable());
  if (method == "warm_up") {
    Card* card = FindCard(Text(arguments, "backend"), arguments.value("ordinal", 0));
    if (card != nullptr) card->StartWarmUp();
    return "{}";
  }
  if (method == "measure_stock") return Dump(MeasureStock(arguments));
  const std::shared_ptr<SessionState> state = Session(arguments);
  if (method == "stats") {
    json stats = Stats(*state);
    stats["graphs"] = GraphStats(Text(arguments, "token"));
    return Dump(stats);
  }
  if (method == "graph" || method == "release_graph") {
    return Dump(Graph(arguments, method == "release_graph"));
  }
  if (method == "note_graphs") {
    state->NoteGraphs(Text(arguments, "line"));
    return "{}";
  }
  if (method == "explain") return Dump(Explain(*state));
  if (method == "get_results") return state->GetResults();
  if (method == "set_results") return Dump(SetResults(*state, arguments));
  if (method == "load_cache") return Dump(LoadCache(*state, arguments));
  if (method == "save_cache") {
    ThrowIfError(state->SaveCache(Text(arguments, "path")));
    return "{}";
  }
  if (method == "collect") {
    state->Collect(arguments.value("on", true));
    return "{}";
  }
  if (method == "tune_pending") {
    Result<SessionState::Tuned> tuned =
        state->TunePending(arguments.value("max_problems", size_t{1}));
    ThrowIfError(tuned.ok() ? Status::Ok() : tuned.TakeStatus());
    return Dump({{"tuned", tuned.value().count},
                 {"pending", tuned.value().pending},
                 {"last", tuned.value().last}});
  }
  if (method == "tune_seen") return Dump({{"pending", state->QueueRecorded()}});
  if (method == "stop_background") {
    state->StopBackground();
    return "{}";
  }
  if (method == "save_own_cache") {
    state->SaveOwnCache();
    return "{}";
  }
  throw Failure(StatusCode::kInvalidArgument, "no control method '" + method + "'");
}

char* Copy(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy != nullptr) std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

}  // namespace
}  // namespace tunableop

int TunableOpControl(const char* method, const char* arguments, char** reply) {
  using tunableop::Copy;
  using tunableop::StatusCode;
  *reply = nullptr;
  try {
    *reply = Copy(tunableop::Call(method, nlohmann::json::parse(arguments)));
    return static_cast<int>(StatusCode::kOk);
  } catch (const tunableop::Failure& failure) {
    *reply = Copy(failure.what());
    return static_cast<int>(failure.code());
  } catch (const std::exception& error) {
    *reply = Copy(error.what());
    return static_cast<int>(StatusCode::kInternal);
  } catch (...) {
    return static_cast<int>(StatusCode::kInternal);
  }
}

void TunableOpControlFree(char* reply) { std::free(reply); }
