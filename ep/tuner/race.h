// The race: who is fastest, and is that more than luck. Knows nothing of GEMMs.
//
// Rounds are interleaved: each lane runs once in each round, in an order shuffled anew, so that a
// drift of the clock or a neighbour's load meets all of them. A sample is the mean of a batch of
// calls long enough for the clock (20 us); a lane's figure is the median of its samples.
//
// The incumbent (the default kernel) loses only to a lane that
//  - is faster by min_gain in the medians,
//  - is faster beyond chance: from 12 rounds on by Wilcoxon's signed-rank test on the paired
//    logarithms of the times (it assumes nothing of the noise but that it treats two equal kernels
//    alike), before that by Student's t-test on the logarithms, which can tell a clear case after
//    three rounds,
//  - was still ahead in the last quarter of the rounds (kernels that start fast and throttle).
// The chance of a switch between equal kernels is kept below 0.5 % in all: it is divided among the
// looks (after 24, 96, 384 and 1024 rounds; between them, nothing is decided) and the challengers
// (Bonferroni). At a look, a lane leaves that is shown, at 5 %, not to be min_gain faster; the race
// ends when a winner stands, no challenger is left, or time is up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "gemm/status.h"
#include "tuner/sampler.h"

namespace tunableop {

struct Lane {
  TimedCall call;
  double probe_ms = 0.0;  // the best time seen before the race; decides how many calls a sample has
  std::vector<double> ms;  // the race's samples, one for each round that the lane ran in
  bool racing = true;
  bool electable = true;  // false: a spectator, of which there may be one
  Status failure;         // of a call during the race: the lane is out
};

struct RaceOptions {
  double min_gain = 0.03;
  size_t max_rounds = 1024;
  uint64_t seed = 1;
  std::function<void()> before_round;  // untimed
  std::string incumbent_name = "the default";
};

constexpr size_t kNoLane = SIZE_MAX;

struct Election {
  size_t winner = kNoLane;  // the incumbent, unless somebody is better; kNoLane: nobody ran
  std::string why;          // one line for a person
};

// Whether the first is faster than the second by the rule above, as one of `challengers`.
bool Beats(std::span<const double> challenger, std::span<const double> incumbent, double min_gain,
           size_t challengers = 1);

// Runs rounds until it is settled who wins. `incumbent` may be kNoLane: then the lowest median
// wins, and 24 rounds are enough. Lanes that are not racing are left out. A spectator runs in every
// round and has no say in it; when the winner is known, those two go on until it is known which of
// them is faster (at the same looks: after 24 rounds at least), or time is up.
Election RunRace(std::span<Lane> lanes, size_t incumbent, const RaceOptions& options,
                 Sampler& sampler);

}  // namespace tunableop
