// Whether one of two calls on a card is slower than the other, in a state of its caches that they
// did not race in.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tunableop {

// Empty caches cost a call about as long as filling them takes, at most. In a call of this many
// times what it takes to overwrite twice of them, they make less than 1 % of a difference.
inline constexpr double kFillsOfLongCall = 50.0;

// Adds one more; false: there is no more (no time, an error).
using TakeSample = std::function<bool(std::vector<double>& milliseconds)>;

// Takes up to 24 pairs of samples. Why the first may not win: it is more than 1 % slower in the
// medians beyond chance, or there was no time to see; empty: it is not. `where`: "warm caches".
std::string LossInPairs(const TakeSample& first, const TakeSample& second, const char* where);

}  // namespace tunableop
