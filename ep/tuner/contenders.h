// Who is there to race for a problem, and what becomes known of each.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gemm/backend.h"
#include "gemm/problem.h"
#include "gemm/status.h"
#include "tuner/tuner.h"

namespace tunableop {

struct Contender {
  size_t index = 0;  // in Field::contenders
  Candidate candidate;
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const Backend> backend;
  // Milliseconds: its probes, and once it has raced, its samples of the race.
  // gcc asks for the initialiser where others are designated.
  std::vector<double> samples = {};  // NOLINT(readability-redundant-member-init)
  double error = 0.0;
  bool right = false;  // verified, or verification is off and it ran
  bool raced = false;
  bool returned = false;   // from a first call that it might have hung in
  bool spectator = false;  // runs with the others, but is never elected, nor denied
};

// The smallest sample. Precondition: there is one.
double BestSample(const Contender& contender);

// All of them, and those that are out.
struct Field {
  std::vector<Contender> contenders;  // the first is the default; a spectator is the last
  size_t incumbent = 0;               // the one to beat
  std::string spectator_note;         // why there is no spectator, or none any more
  std::vector<Rejection> rejected;
  struct Wrong {
    size_t index;  // of the contender
    std::string reason;
  };
  std::vector<Wrong> wrong;  // of the rejected, those that gave a wrong answer

  void Reject(const Contender& contender, std::string reason);
  void RejectWrong(Contender& contender, const std::string& reason);
  bool IsRejected(const Candidate& candidate) const;
  size_t electable() const;
  Contender* spectator();  // null: there is none
  // "the default", or what it is called when another kernel served.
  std::string NameOf(const Contender& contender) const;
  // "; native:x wrong answer: ..." of each that is out.
  std::string Reasons() const;
};

// Prepares one more, unless it is denied. Empty: it is the last of field.contenders; else why not.
std::string AddContender(Field& field, const Problem& problem,
                         const std::shared_ptr<const Backend>& backend, const Candidate& candidate,
                         const TunerOptions& options);

// Prepares every candidate. kNotSupported, with every reason: there is none.
Result<Field> GatherContenders(const Problem& problem,
                               std::span<const std::shared_ptr<const Backend>> backends,
                               const TunerOptions& options);

}  // namespace tunableop
