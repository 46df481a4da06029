#include "tuner/device_pairs.h"

#include <algorithm>
#include <cstdio>

#include "tuner/statistics.h"

namespace tunableop {
namespace {

constexpr size_t kPairs = 24;        // of samples, one of either
constexpr size_t kFewestPairs = 3;   // that say anything
constexpr size_t kEnoughPairs = 12;  // when they are clear
constexpr double kLoss = 0.01;       // of the second's time, that the first may lose
constexpr double kLuck = 0.05;

}  // namespace

std::string LossInPairs(const TakeSample& first, const TakeSample& second, const char* where) {
  std::vector<double> mine;
  std::vector<double> theirs;
  while (mine.size() < kPairs) {
    const bool leads = mine.size() % 2 == 0;  // each does in every other pair
    if (!(leads ? first(mine) && second(theirs) : second(theirs) && first(mine))) break;
    if (mine.size() == kEnoughPairs && (ChanceOfLuck(mine, theirs, 1.0 + kLoss) <= kLuck ||
                                        ChanceOfLuck(theirs, mine) <= kLuck / 10.0)) {
      break;
    }
  }
  const size_t pairs = std::min(mine.size(), theirs.size());
  if (pairs < kFewestPairs) return std::string("no time to compare it in ") + where;
  mine.resize(pairs);
  theirs.resize(pairs);
  const double loss = Median(mine) / Median(theirs) - 1.0;
  if (loss <= kLoss || ChanceOfLuck(theirs, mine) > kLuck) return {};
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %%", 100.0 * loss);
  return std::string(text) + " slower in " + where;
}

}  // namespace tunableop
