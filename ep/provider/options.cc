#include "provider/options.h"

#include <charconv>
#include <optional>
#include <string_view>

namespace tunableop {
namespace {

Status Wrong(std::string_view key, std::string_view expected, std::string_view found) {
  return {StatusCode::kInvalidArgument, "TunableOp option '" + std::string(key) + "': expected " +
                                            std::string(expected) + ", found '" +
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

Status ReadTuning(std::string_view text, Options& options) {
  if (text == "off") {
    options.tuning = TuningMode::kOff;
  } else if (text == "cached") {
    options.tuning = TuningMode::kCached;
  } else if (text == "online") {
    options.tuning = TuningMode::kOnline;
  } else {
    return Wrong("tuning", "one of off, cached, online", text);
  }
  return Status::Ok();
}

Status ReadClaim(std::string_view text, Options& options) {
  if (text == "auto") {
    options.claim = ClaimPolicy::kAuto;
  } else if (text == "all") {
    options.claim = ClaimPolicy::kAll;
  } else if (text == "weights") {
    options.claim = ClaimPolicy::kWeights;
  } else {
    return Wrong("claim", "one of auto, all, weights", text);
  }
  return Status::Ok();
}

Status ReadCandidates(std::string_view text, Options& options) {
  if (text == "default") {
    options.tuner.candidates = CandidateScope::kDefault;
  } else if (text == "all") {
    options.tuner.candidates = CandidateScope::kAll;
  } else {
    return Wrong("candidates", "one of default, all", text);
  }
  return Status::Ok();
}

Status ReadVerify(std::string_view text, Options& options) {
  if (text != "0" && text != "1") return Wrong("verify", "0 or 1", text);
  options.tuner.verify = text == "1";
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
  if (key == "cache_size") {
    return ReadNumber<size_t>(key, value, 1, 1U << 20U, "an integer from 1 to 1048576",
                              options.cache_size);
  }
  if (key == "warmup_iter") {
    return ReadNumber<int>(key, value, 0, 1000, "an integer from 0 to 1000",
                           options.tuner.warmup_iter);
  }
  if (key == "max_tuning_ms") {
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
  if (key == "device") {
    return value == "auto" || value == "cpu" ? Status::Ok() : Wrong(key, "one of auto, cpu", value);
  }
  if (key == "precision") {
    return value == "exact" ? Status::Ok() : Wrong(key, "exact (a CPU runs fp32 as fp32)", value);
  }
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
          "verify, candidates, claim, fusion, precision, device, threads"};
}

}  // namespace

Result<Options> ParseOptions(const std::vector<std::pair<std::string, std::string>>& pairs) {
  Options options;
  for (const auto& [key, value] : pairs) {
    if (Status status = ReadOne(key, value, options); !status.ok()) return status;
  }
  return options;
}

}  // namespace tunableop
