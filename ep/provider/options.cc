#include "provider/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace tunableop {
namespace {

Status Wrong(std::string_view key, std::string_view expected, std::string_view found) {
  const bool variable = key.starts_with("TUNABLEOP_");
  return {StatusCode::kInvalidArgument,
          std::string(variable ? "TunableOp environment variable '" : "TunableOp option '") +
              std::string(key) + "': expected " + std::string(expected) + ", found '" +
              std::string(found) + "'"};
}

template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <typename T>
Status ReadNumber(std::string_view key, std::string_view text, T lowest, T highest,
                  std::string_view range, T& out) {
  const std::optional<T> value = ParseNumber<T>(text);
  // Written so that a NaN is refused too.
  if (!value || !(*value >= lowest && *value <= highest)) return Wrong(key, range, text);
  out = *value;
  return Status::Ok();
}

constexpr std::string_view kModes = "one of off, cached, online, background, record";

Status ReadTuning(std::string_view text, Options& options) {
  const std::optional<TuningMode> mode = ParseTuningMode(text);
  if (!mode) return Wrong("tuning", kModes, text);
  options.tuning = *mode;
  return Status::Ok();
}

Status ReadMeasureMode(std::string_view key, std::string_view text, Options& options) {
  int mode = 0;
  TUNABLEOP_RETURN_IF_ERROR(
      ReadNumber<int>(key, text, 0, 2, "0 (time), 1 (and rates) or 2 (and counters)", mode));
  options.measure_mode = static_cast<MeasureMode>(mode);
  return Status::Ok();
}

Status ReadBuckets(std::string_view text, Options& options) {
  if (text != "off" && text != "pow2") return Wrong("buckets", "one of off, pow2", text);
  options.buckets = text == "off" ? Buckets::kOff : Buckets::kPowersOfTwo;
  return Status::Ok();
}

Status ReadCacheSize(std::string_view key, std::string_view value, Options& options) {
  return ReadNumber<size_t>(key, value, 1, 1U << 20U, "an integer from 1 to 1048576",
                            options.cache_size);
}

Status ReadWarmupIter(std::string_view key, std::string_view value, Options& options) {
  return ReadNumber<int>(key, value, 0, 1000, "an integer from 0 to 1000",
                         options.tuner.warmup_iter);
}

Status ReadRevalidate(std::string_view key, std::string_view value, Options& options) {
  return ReadNumber<int64_t>(key, value, 0, int64_t{1} << 40U,
                             "an integer number of milliseconds from 0 (never) to 2^40",
                             options.revalidate_ms);
}

Status ReadClaim(std::string_view text, Options& options) {
  if (text == "auto") {
    options.claim = ClaimPolicy::kAuto;
  } else if (text == "all") {
    options.claim = ClaimPolicy::kAll;
  } else if (text == "gemm") {
    options.claim = ClaimPolicy::kGemm;
  } else if (text == "weights") {
    options.claim = ClaimPolicy::kWeights;
  } else {
    return Wrong("claim", "one of auto, all, gemm, weights", text);
  }
  return Status::Ok();
}

// "default", "all", or libraries' names with commas between them, which Target::Restricted judges.
Status ReadCandidates(std::string_view text, Options& options) {
  options.libraries.clear();
  options.tuner.candidates = text == "all" ? CandidateScope::kAll : CandidateScope::kDefault;
  if (text == "default" || text == "all") return Status::Ok();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view name = text.substr(begin, end - begin);
    if (name.empty() || name.find_first_of(" \t:") != std::string_view::npos) {
      return Wrong("candidates", "default, all, or names of libraries with commas between them",
                   text);
    }
    options.libraries.emplace_back(name);
    begin = end + 1;
  }
  return Status::Ok();
}

Status ReadPrecision(std::string_view text, Options& options) {
  for (const Precision precision : {Precision::kExact, Precision::kTf32, Precision::kBf16}) {
    if (text != Name(precision)) continue;
    options.precision = precision;
    return Status::Ok();
  }
  return Wrong("precision", "one of exact, tf32, bf16", text);
}

Status ReadDevice(std::string_view text, Options& options) {
  constexpr std::string_view kExpected = "auto, cpu, cuda, cuda:<id>, hip or hip:<id>";
  using Kind = DeviceChoice::Kind;
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  DeviceChoice choice;
  if (name == "cuda" || name == "hip") {
    choice.kind = name == "cuda" ? Kind::kCuda : Kind::kHip;
    if (colon != std::string_view::npos) {
      const std::optional<int> id = ParseNumber<int>(text.substr(colon + 1));
      if (!id || *id < 0) return Wrong("device", kExpected, text);
      choice.id = *id;
    }
  } else if (text == "cpu") {
    choice.kind = Kind::kCpu;
  } else if (text != "auto") {
    return Wrong("device", kExpected, text);
  }
  options.device = choice;
  return Status::Ok();
}

Status ReadVerify(std::string_view text, Options& options) {
  if (text != "0" && text != "1") return Wrong("verify", "0 or 1", text);
  options.tuner.verify = text == "1";
  return Status::Ok();
}

Status ReadGraphs(std::string_view key, std::string_view value, Options& options) {
  if (key == "max_graphs") {
    return ReadNumber<size_t>(key, value, 1, 4096, "an integer from 1 to 4096", options.max_graphs);
  }
  if (key == "graph_memory") {
    return ReadNumber<size_t>(key, value, 0, size_t{1} << 48U,
                              "an integer number of bytes from 0 (a quarter of the card's) to 2^48",
                              options.graph_memory);
  }
  if (value != "0" && value != "1") return Wrong(key, "0 or 1", value);
  options.graphs = value == "1";
  return Status::Ok();
}

Status ReadOne(std::string_view key, std::string_view value, Options& options) {
  if (key == "tuning") return ReadTuning(value, options);
  if (key == "claim") return ReadClaim(value, options);
  if (key == "candidates") return ReadCandidates(value, options);
  if (key == "verify") return ReadVerify(value, options);
  if (key == "cache") {
    if (value.empty()) return Wrong(key, "the path of a file", value);
    options.cache_path = value;
    return Status::Ok();
  }
  if (key == "cache_size") return ReadCacheSize(key, value, options);
  if (key == "warmup_iter") return ReadWarmupIter(key, value, options);
  if (key == "measure_mode") return ReadMeasureMode(key, value, options);
  if (key == "revalidate_ms") return ReadRevalidate(key, value, options);
  if (key == "buckets") return ReadBuckets(value, options);
  if (key == "trace") {
    if (value.empty()) return Wrong(key, "the path of a file", value);
    options.trace_path = value;
    return Status::Ok();
  }
  if (key == "max_tuning_bytes") {
    options.limits_scratch = true;
    return ReadNumber<size_t>(key, value, 0, size_t{1} << 40U,
                              "an integer number of bytes from 0 to 2^40",
                              options.tuner.max_scratch_bytes);
  }
  if (key == "max_session_ms" || key == "max_day_ms") {
    double& limit = key == "max_day_ms" ? options.max_day_ms : options.max_session_ms;
    return ReadNumber<double>(key, value, 0.0, 1e12,
                              "a number of milliseconds from 0 (no limit) to 1e12", limit);
  }
  if (key == "background_share") {
    return ReadNumber<double>(key, value, 0.01, 1.0, "a share from 0.01 to 1",
                              options.background_share);
  }
  if (key == "background_hold_share") {
    return ReadNumber<double>(key, value, 0.0, 0.5, "a share from 0 to 0.5",
                              options.background_hold_share);
  }
  if (key == "max_tuning_ms") {
    options.limits_time = true;
    return ReadNumber<double>(key, value, 0.0, 3.6e6, "a number of milliseconds from 0 to 3600000",
                              options.tuner.max_tuning_ms);
  }
  if (key == "min_gain") {
    return ReadNumber<double>(key, value, 0.0, 0.99, "a share from 0 to 0.99",
                              options.tuner.min_gain);
  }
  if (key == "threads") {
    return ReadNumber<int>(key, value, 0, 4096, "an integer from 0 (find out) to 4096",
                           options.threads);
  }
  if (key == "enable_graph" || key == "max_graphs" || key == "graph_memory") {
    return ReadGraphs(key, value, options);
  }
  if (key == "fused_groups") {
    if (value != "0" && value != "1") return Wrong(key, "0 or 1", value);
    options.fused_groups = value == "1";
    return Status::Ok();
  }
  if (key == "device") return ReadDevice(value, options);
  if (key == "precision") return ReadPrecision(value, options);
  if (key == "fusion") {
    // Done by the Python helper before the session exists; seen here only as a value to check.
    return value == "auto" || value == "off" || value == "keep"
               ? Status::Ok()
               : Wrong(key, "one of auto, off, keep", value);
  }
  return {
      StatusCode::kInvalidArgument,
      "TunableOp has no option '" + std::string(key) +
          "'; the options are: tuning, cache, cache_size, warmup_iter, max_tuning_ms, min_gain, "
          "verify, candidates, claim, fusion, precision, device, threads, measure_mode, "
          "revalidate_ms, max_tuning_bytes, max_session_ms, max_day_ms, background_share, "
          "background_hold_share, buckets, trace, fused_groups, enable_graph, max_graphs, "
          "graph_memory"};
}

}  // namespace

std::string_view Name(TuningMode mode) noexcept {
  switch (mode) {
    case TuningMode::kOff:
      return "off";
    case TuningMode::kCached:
      return "cached";
    case TuningMode::kOnline:
      return "online";
    case TuningMode::kBackground:
      return "background";
    case TuningMode::kRecord:
      return "record";
  }
  return "";
}

std::optional<TuningMode> ParseTuningMode(std::string_view text) noexcept {
  for (const TuningMode mode : {TuningMode::kOff, TuningMode::kCached, TuningMode::kOnline,
                                TuningMode::kBackground, TuningMode::kRecord}) {
    if (text == Name(mode)) return mode;
  }
  return std::nullopt;
}

namespace {

// Null for a variable that is not set, or empty: so a deployment leaves one unset.
const char* Variable(const char* name) noexcept {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

}  // namespace

Status ReadEnvironment(Options& options) {
  constexpr const char* kEnable = "TUNABLEOP_ENABLE";
  if (const char* text = Variable(kEnable); text != nullptr) {
    const std::string_view value(text);
    if (value != "0" && value != "1") {
      return Wrong(kEnable, "0 (the default kernels, never a measurement) or 1", value);
    }
    if (value == "0") options.tuning = TuningMode::kOff;
  }
  constexpr const char* kVerbose = "TUNABLEOP_VERBOSE";
  if (const char* text = Variable(kVerbose); text != nullptr) {
    const std::string_view value(text);
    if (value != "0" && value != "1") return Wrong(kVerbose, "0 or 1", value);
    options.verbose = value == "1";
  }
  using Reader = Status (*)(std::string_view, std::string_view, Options&);
  constexpr std::array<std::pair<const char*, Reader>, 4> kVariables = {
      {{"TUNABLEOP_WARMUP_ITER", &ReadWarmupIter},
       {"TUNABLEOP_CACHE_SIZE", &ReadCacheSize},
       {"TUNABLEOP_MEASURE_MODE", &ReadMeasureMode},
       {"TUNABLEOP_REVALIDATE_MS", &ReadRevalidate}}};
  for (const auto& [name, read] : kVariables) {
    const char* text = Variable(name);
    if (text != nullptr) TUNABLEOP_RETURN_IF_ERROR(read(name, text, options));
  }
  return Status::Ok();
}

Result<Options> ParseOptions(const std::vector<std::pair<std::string, std::string>>& pairs) {
  Options options;
  TUNABLEOP_RETURN_IF_ERROR(ReadEnvironment(options));
  for (const auto& [key, value] : pairs) {
    if (Status status = ReadOne(key, value, options); !status.ok()) return status;
  }
  return options;
}

}  // namespace tunableop
