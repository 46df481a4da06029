// Which of several ways to do the same work on a card is faster: one kernel, say, or several that
// hand on their results. The same rules as for the kernels of a product (docs/tuning.md): the usual
// form stays unless another is faster beyond min_gain and chance, in interleaved rounds, and not
// slower in the other state of the caches; and it has to give the same answers. Forms differ in how
// many kernels they launch, which costs the host time that events do not see.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "gemm/device_queue.h"
#include "gemm/problem.h"
#include "gemm/status.h"
#include "tuner/clock.h"
#include "tuner/form_answers.h"

namespace tunableop {

struct Form {
  std::string name;
  // Queues all of its work on the queue that RaceForms is given; the same answers each time, which
  // it reads nothing of.
  std::function<Status()> run;
};

struct FormOptions {
  double min_gain = 0.03;
  double max_ms = 100.0;  // wall clock, overrun by at most one call
  bool verify = true;
  bool cold = false;  // caches are overwritten before each timed call
  // Calls come one by one from the host, and are not replayed: a form that it takes longer to
  // launch is not taken unless the card takes several times as long as that.
  bool launched = false;
  size_t max_bytes = size_t{256} << 20;  // of the card's memory, and of the host's
  double hang_ms = 2000.0;               // of a call: what takes longer does not end
  NowFn now;                             // empty: the steady clock. For tests.
};

struct FormResult {
  size_t winner = 0;
  double winner_ms = 0.0;  // medians; 0: nothing was measured
  double usual_ms = 0.0;
  bool cold = false;
  std::string why;                   // one line for a person: "12.3 % faster than the usual form"
  std::vector<std::string> refused;  // forms that failed or gave other answers: "apart: ..."
};

// The first form is the usual one. Works on `queue` itself, in the order of what is queued there,
// and returns when all is done; the answers are then any form's, those of one that was refused not
// excepted. `like`: see FormAnswers. The caller serialises measurements. Errors: the usual form's
// own; kInternal: the card is lost, or something on it does not end; kOutOfMemory; kBusy: what was
// queued before does not end. Nothing is measured while the stream captures a graph: kNotSupported.
Result<FormResult> RaceForms(std::span<const Form> forms, std::span<const FormAnswer> answers,
                             const Problem& like, const DeviceQueue& queue,
                             const FormOptions& options);

}  // namespace tunableop
