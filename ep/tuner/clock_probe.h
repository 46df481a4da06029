// How fast the core's clock runs at the moment.
#pragma once

namespace tunableop {

// Megahertz of the core that the calling thread runs on, by the time that a chain of dependent
// additions takes (one cycle each); the best of a few chains of about 25 us, since whatever
// interrupts one makes it longer. 0 where the processor is not known.
double MeasureClockMhz() noexcept;

// Keeps the core busy until its clock has stopped rising (three measurements in a row within 1 % of
// the best), or `max_ms` have passed.
void WarmUpClock(double max_ms) noexcept;

}  // namespace tunableop
