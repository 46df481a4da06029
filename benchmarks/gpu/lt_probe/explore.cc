#include "lt_probe/probe.h"

namespace tunableop::probe {

void Exploring(const Card& card, const std::vector<Shape>& shapes) {
  for (const Kind& kind : kKinds) {
    if (kind.type == DataType::kFloat64 || kind.type == DataType::kBFloat16) continue;
    for (const Shape& shape : shapes) {
      const Problem p = MakeProblem(shape, kind);
      std::vector<TimedCandidate> known;
      for (Candidate& one : card.backend->Candidates(p, CandidateScope::kDefault)) {
        known.push_back({std::move(one), 0.0});
      }
      if (known.empty()) continue;
      Clock::time_point start = Clock::now();
      const size_t drawn = card.backend->Explore(p, known, 1, 64).size();
      const double draw_ms = Ns(start) / 1e6;
      known.front().ms = 1;
      start = Clock::now();
      const size_t near = card.backend->Explore(p, known, 1, 64).size();
      const double near_ms = Ns(start) / 1e6;
      std::printf("explore %s %s: drew %zu in %.2f ms (%.0f/s), %zu near %s in %.2f ms (%.0f/s)\n",
                  kind.name, shape.name.c_str(), drawn, draw_ms, drawn / draw_ms * 1e3, near,
                  known.front().candidate.kernel.c_str(), near_ms, near / near_ms * 1e3);
    }
  }
}

}  // namespace tunableop::probe
