// When measuring may go on: in the background it makes way for the requests.
#pragma once

namespace tunableop {

// Called from the one thread that measures.
class Pacer {
 public:
  virtual ~Pacer() = default;

  // Blocks until a call may be timed; what is waited here costs none of the budget. False: the
  // measurement is to be given up at once (Tune returns kCancelled).
  virtual bool WaitForTurn() noexcept = 0;
  // True when, since WaitForTurn returned, something ran that may have disturbed a timed call: the
  // sample is taken again (a few times; then it counts as it is).
  virtual bool Disturbed() const noexcept = 0;
};

}  // namespace tunableop
