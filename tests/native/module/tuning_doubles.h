// Stand-ins for what the tuner is told and asks while it measures.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "gemm/trial_journal.h"
#include "tuner/pacer.h"

namespace tunableop::bindings {

// Keeps what it was told: "begin a b", "enter a", "leave", "end", with full names.
class RecordingJournal final : public TrialJournal {
 public:
  void Begin(const Problem& /*problem*/, std::span<const Candidate> candidates) noexcept override {
    std::string line = "begin";
    names_.clear();
    for (const Candidate& candidate : candidates) {
      names_.push_back(candidate.FullName());
      line += " " + names_.back();
    }
    lines_.push_back(line);
  }
  void Enter(size_t index) noexcept override {
    lines_.push_back("enter " + (index < names_.size() ? names_[index] : "?"));
  }
  void Leave() noexcept override { lines_.emplace_back("leave"); }
  void End() noexcept override { lines_.emplace_back("end"); }

  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> names_;
  std::vector<std::string> lines_;
};

struct PacerScript {
  double wait_ms = 0.0;       // of each turn
  long cancel_after = -1;     // turns; -1: never
  long disturbed_every = 0;   // turns, every so many of which are disturbed; 0: none
  double disturbance = 10.0;  // times as long a call takes then
};

class ScriptedPacer final : public Pacer {
 public:
  // `wait` lets milliseconds pass; `load` makes all calls take so many times as long from now on.
  ScriptedPacer(PacerScript script, std::function<void(double)> wait,
                std::function<void(double)> load)
      : script_(script), wait_(std::move(wait)), load_(std::move(load)) {}

  bool WaitForTurn() noexcept override {
    if (script_.cancel_after >= 0 && turns_ >= script_.cancel_after) return false;
    ++turns_;
    wait_(script_.wait_ms);
    disturbed_ = script_.disturbed_every > 0 && turns_ % script_.disturbed_every == 0;
    load_(disturbed_ ? script_.disturbance : 1.0);
    return true;
  }
  bool Disturbed() const noexcept override { return disturbed_; }

  long turns() const { return turns_; }

 private:
  const PacerScript script_;
  const std::function<void(double)> wait_;
  const std::function<void(double)> load_;
  long turns_ = 0;
  bool disturbed_ = false;
};

}  // namespace tunableop::bindings
