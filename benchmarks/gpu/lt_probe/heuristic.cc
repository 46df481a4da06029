#include "lt_probe/probe.h"

#include <algorithm>
#include <cstring>

namespace tunableop::probe {
namespace {

std::string NameOf(const Card& card, const lt::Description<V>& description,
                   const V::HeuristicResult& result, bool& same_bytes) {
  const auto kernel = card.kernels.Name(*card.core, description, result);
  same_bytes = kernel && std::memcmp(&kernel->launch.algo, &result.algo, sizeof(result.algo)) == 0;
  return kernel ? kernel->name : "(cannot be made again)";
}

}  // namespace

void Heuristics(const Card& card, const std::vector<Shape>& shapes) {
  size_t asked = 0;
  size_t same_alignment = 0;
  size_t same_any_sum = 0;
  size_t kernels = 0;
  size_t same_bytes = 0;
  size_t lost = 0;
  std::vector<double> us;
  std::vector<double> all_us;
  for (const Kind& kind : kKinds) {
    for (const Shape& shape : shapes) {
      const Clock::time_point before = Clock::now();
      static_cast<void>(
          card.backend->Candidates(MakeProblem(shape, kind), CandidateScope::kDefault));
      all_us.push_back(Ns(before) / 1e3);
      const auto gemm = lt::ToColumnMajor(MakeProblem(shape, kind), false, V::kMaxStride);
      lt::Asking<V> asking(*card.core);
      Must(asking.TakeStatus(), "handle");
      lt::Description<V> description =
          Must(lt::Description<V>::Make(card.core->api, gemm.value()), "description");
      const auto ask = [&](int count) {
        return Must(lt::AskHeuristic(*card.core, description, kLtWorkspaceBytes, count), "ask");
      };
      const Clock::time_point start = Clock::now();
      const auto list = ask(V::kDefaultRequest);
      us.push_back(Ns(start) / 1e3);
      if (list.empty()) {
        std::printf("heuristic %s %s: nothing\n", kind.name, shape.name.c_str());
        continue;
      }
      ++asked;
      std::string first;
      for (const auto& result : list) {
        bool same = false;
        const std::string name = NameOf(card, description, result, same);
        if (first.empty()) first = name;
        ++kernels;
        same_bytes += same ? 1 : 0;
        lost += name.starts_with('(') ? 1 : 0;
        if (!same) {
          std::printf("heuristic %s %s: %s differs:", kind.name, shape.name.c_str(), name.c_str());
          for (const uint64_t word : result.algo.data) {
            std::printf(" %016llx", static_cast<unsigned long long>(word));
          }
          std::printf("\n");
        }
      }
      bool same = false;
      for (auto* matrix :
           {&description.gemm.first, &description.gemm.second, &description.gemm.out}) {
        matrix->align_bytes = 256;
      }
      const auto aligned = ask(1);
      const std::string other =
          aligned.empty() ? "nothing" : NameOf(card, description, aligned.front(), same);
      same_alignment += other == first ? 1 : 0;
      if (other != first) {
        std::printf("heuristic %s %s: %s at 16 bytes, %s at 256\n", kind.name, shape.name.c_str(),
                    first.c_str(), other.c_str());
      }
      // Any way of adding: as for a precision that is not exact. The type of the product stays.
      description.gemm.precision = Precision::kBf16;
      const auto any = ask(1);
      if (!any.empty() && !aligned.empty() &&
          std::memcmp(&any.front().algo, &aligned.front().algo, sizeof(V::Algo)) == 0) {
        ++same_any_sum;
      } else {
        std::printf("heuristic %s %s: another first choice when sums in 16 bits are allowed\n",
                    kind.name, shape.name.c_str());
      }
    }
  }
  std::sort(us.begin(), us.end());
  std::sort(all_us.begin(), all_us.end());
  std::printf(
      "heuristic: %zu problems; first choice equal at 16 and 256 bytes in %zu, with any way "
      "of adding in %zu; of %zu kernels %zu are made again byte for byte, %zu cannot be; "
      "Candidates takes %.1f us (median), %.1f (worst), the heuristic asked again %.1f (median)\n",
      asked, same_alignment, same_any_sum, kernels, same_bytes, lost, all_us[all_us.size() / 2],
      all_us.back(), us[us.size() / 2]);
}

}  // namespace tunableop::probe
