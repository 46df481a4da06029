// Counters of one session, for people and for monitoring.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace tunableop {

struct SessionStats {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t tuned = 0;           // problems measured by this session
  double tuning_seconds = 0.0;  // wall clock spent measuring
  uint64_t evicted = 0;
  uint64_t entries = 0;  // problems the cache can serve: in use, and loaded but not met yet
  uint64_t denied = 0;   // candidates that lost their place (wrong, failing)
  std::map<std::string, uint64_t> rejected;  // the same by reason: "wrong answer" ...
  uint64_t pending = 0;                      // problems that wait to be measured in the background
  uint64_t deferred = 0;                     // problems whose uses do not repay a measurement yet
  uint64_t stale = 0;                        // choices that serve and are to be measured again
  uint64_t revalidated = 0;                  // measurements of problems that had a choice already
  double session_seconds = 0.0;              // since the session was made
  double saved_seconds = 0.0;  // what the choices saved against the default, as it was measured
  uint64_t forms = 0;          // shapes whose form this session measured
  std::string tuning;          // the mode at present
  std::map<std::string, uint64_t>
      fallbacks;  // runs on the default kernel for want of a choice, by reason
};

}  // namespace tunableop
