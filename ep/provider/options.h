// What a user can set, by the keys of the public contract (provider options, or session config
// entries "ep.tunableopexecutionprovider.<key>").
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gemm/problem.h"
#include "gemm/status.h"
#include "tuner/tuner.h"

namespace tunableop {

enum class TuningMode : uint8_t {
  kOff,         // the default kernel always; the cache is not used
  kCached,      // what the cache knows, else the default kernel; never a measurement
  kOnline,      // measure at the first use of a problem
  kBackground,  // the default kernel at once; measured on copies when the session is idle
  kRecord,      // as kOff, and every problem is counted for tuning later
};
enum class ClaimPolicy : uint8_t {
  kAuto,     // what kAll takes, but where a stock provider is known to be better
  kAll,      // every MatMul and Gemm, and on a card every operator that has a kernel
  kGemm,     // every MatMul and Gemm
  kWeights,  // only those whose B is a constant weight
};

// What is kept beside the times: each level holds the ones before it.
enum class MeasureMode : uint8_t {
  kTime,      // 0
  kRates,     // 1: achieved GFLOP/s and GB/s, clock and temperature
  kCounters,  // 2: the processor's own counters
};
enum class Buckets : uint8_t {
  kOff,         // a measured choice serves its own m only
  kPowersOfTwo  // and every other m of its range: 1, 2, 3-4, 5-8, 9-16 ...
};

// Where the session's GEMMs run.
struct DeviceChoice {
  enum class Kind : uint8_t { kAuto, kCpu, kCuda, kHip };
  Kind kind = Kind::kAuto;
  int id = -1;  // -1: not said
};

struct Options {
  DeviceChoice device;
  Precision precision = Precision::kExact;
  std::vector<std::string> libraries;  // that may run; empty: all there are
  TuningMode tuning = TuningMode::kOnline;
  ClaimPolicy claim = ClaimPolicy::kAuto;
  std::string cache_path;  // empty: no file
  size_t cache_size = 2048;
  int threads = 0;  // 0: found by looking at ONNX Runtime's pool
  MeasureMode measure_mode = MeasureMode::kRates;
  Buckets buckets = Buckets::kOff;
  int64_t revalidate_ms = 300'000;   // a choice older than this is measured again; 0: never
  double max_session_ms = 60'000.0;  // of measuring, in all; 0: without limit
  double max_day_ms = 600'000.0;     // of measuring on one day, by all who save to the file
  double background_share = 0.2;     // of the time, at most, that measuring in the background takes
  double background_hold_share = 0;  // of the time, at most, that runs are held back for it
  std::string trace_path;            // a CSV of every measurement; empty: none
  bool fused_groups = true;          // on a card, nodes that can run as one do
  bool graphs = false;               // runs are captured into graphs, where ONNX Runtime can do it
  size_t max_graphs = 16;            // at the same time
  size_t graph_memory = 0;           // bytes that belong to them; 0: a quarter of the card's
  bool verbose = false;              // one line on stderr for each GEMM call
  bool limits_scratch = false;       // tuner.max_scratch_bytes was set by the user
  bool limits_time = false;          // and tuner.max_tuning_ms
  TunerOptions tuner;
};

// "off", "cached", "online", "background", "record".
std::string_view Name(TuningMode mode) noexcept;
// Nothing: not a mode.
std::optional<TuningMode> ParseTuningMode(std::string_view text) noexcept;

// The environment's TUNABLEOP_* variables, lower in rank than any option. A wrong value is an error
// that names the variable, what was found and what is allowed.
Status ReadEnvironment(Options& options);

// Every key must be known and every value in range; the error names the key, what was found and
// what is allowed. `pairs` are (key without prefix, value).
// Starts from the environment.
Result<Options> ParseOptions(const std::vector<std::pair<std::string, std::string>>& pairs);

}  // namespace tunableop
