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

// What takes turns that are far apart has few figures: true when the slowest of `challenger` is
// still faster than the fastest of `incumbent`, by the share `min_gain`. Of two that are equal a
// given one wins three turns against three once in twenty times (of six figures, its three are the
// least: 1 / 20), two against two once in six; false when either has no figure, and when those of
// `challenger` are all 0: less than what was taken off them for the call.
bool WinsEveryTurn(std::span<const double> challenger, std::span<const double> incumbent,
                   double min_gain);

}  // namespace tunableop
