#include "lt_probe/probe.h"

#include <algorithm>
#include <array>

namespace tunableop::probe {
namespace {

template <typename Call>
double NsOfCall(const Card& card, const Call& call) {
  constexpr int kCalls = 100;  // the queue of a card takes about a thousand
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < kCalls; ++i) call();
  const double ns = Ns(start) / kCalls;
  Must(card.device->Synchronize(card.queue->stream()), "wait");
  return ns;
}

}  // namespace

void HostCost(const Card& card) {
  for (const Epilogue epilogue : {Epilogue::kNone, Epilogue::kBias}) {
    for (const Kind& kind : {kKinds[0], kKinds[2]}) {
      for (const Shape& shape : {Shape{"", 1, 8, 8, 8, true}, Shape{"", 1, 128, 768, 768, true}}) {
        Problem p = MakeProblem(shape, kind);
        p.epilogue = epilogue;
        const Candidate candidate = card.backend->Candidates(p, CandidateScope::kDefault).front();
        const auto plan = Must(card.backend->Prepare(p, candidate), "plan");
        const auto gemm = lt::ToColumnMajor(p, false, V::kMaxStride);
        const auto description =
            Must(lt::Description<V>::Make(card.core->api, gemm.value()), "description");
        lt::Asking<V> asking(*card.core);
        Must(asking.TakeStatus(), "handle");
        const auto kernel =
            Must(card.kernels.Find(*card.core, description, candidate.kernel, -1), "kernel");
        const DeviceBuffer memory =
            Must(DeviceBuffer::Create(card.device, size_t{8} << 20), "memory");
        Must(card.device->Fill(memory.data(), 0, memory.bytes(), card.queue->stream()), "fill");
        char* const at = static_cast<char*>(memory.data());
        Operands operands;
        operands.a = at;
        operands.b = at + (size_t{2} << 20);
        operands.c = at + (size_t{6} << 20);
        // Two biases in turn, as two layers of one shape have them.
        const void* const biases[] = {at + (size_t{7} << 20), at + (size_t{7} << 20) + 8192};
        QueueExecutor executor(*card.queue);
        const float one = 1;
        const float zero = 0;
        std::array<std::vector<double>, 2> ns;
        for (int round = 0; round < 41; ++round) {
          size_t turn = 0;
          ns[0].push_back(NsOfCall(card, [&] {
            operands.bias = biases[turn++ & 1];
            Must(plan->Run(operands, executor), "run");
          }));
          ns[1].push_back(NsOfCall(card, [&] {
            if (epilogue == Epilogue::kBias) {
              Must(lt::SetBias(card.core->api, description.desc.get(), biases[turn++ & 1]), "bias");
            }
            const int status = card.core->api.matmul(
                card.core->handle.get(), description.desc.get(), &one, operands.b,
                description.first.get(), operands.a, description.second.get(), &zero, operands.c,
                description.out.get(), operands.c, description.out.get(), &kernel.launch.algo,
                card.queue->workspace(), card.queue->workspace_bytes(), card.queue->stream());
            Must(lt::ToStatus<V>(status, "Matmul"), "bare");
          }));
        }
        for (auto& one_of : ns) std::sort(one_of.begin(), one_of.end());
        const double run = ns[0][ns[0].size() / 2];
        const double bare = ns[1][ns[1].size() / 2];
        std::printf(
            "host %s %s: Plan::Run %.0f ns, bare %.0f ns, difference %.0f ns (medians; "
            "least %.0f and %.0f)\n",
            kind.name, ToString(p).c_str(), run, bare, run - bare, ns[0].front(), ns[1].front());
      }
    }
  }
}

}  // namespace tunableop::probe
