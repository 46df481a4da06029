// What samples of times say: medians, and whether a difference is more than luck. Pure functions.
#pragma once

#include <span>

namespace tunableop {

// The middle value, or the mean of the two; 0 of none.
double Median(std::span<const double> values);

// The chance of seeing `challenger` as much faster than `incumbent` as here, or more, if it took
// exactly `factor` times as long. Paired by position (the shorter length counts). 1 with fewer than
// three pairs.
double ChanceOfLuck(std::span<const double> challenger, std::span<const double> incumbent,
                    double factor = 1.0);

// True when the medians of the last quarter of the pairs say so too, or there are too few of them.
bool IsStillAhead(std::span<const double> challenger, std::span<const double> incumbent);

}  // namespace tunableop
