// Kernels of a card's GEMM libraries on numpy arrays, on real or simulated cards.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/gpu/devices.h"
#include "gemm/backend.h"
#include "gemm/device_memory.h"
#include "gemm/device_queue.h"
#include "module/module.h"

namespace py = pybind11;

namespace tunableop::bindings {
namespace {

template <typename T>
T Taken(Result<T> result) {
  if (!result.ok()) ThrowIfError(result.TakeStatus());
  return std::move(result).value();
}

// A stream with what its kernels need.
class Lane {
 public:
  Lane(const std::shared_ptr<const Device>& device, size_t workspace_bytes)
      : stream_(Taken(DeviceStream::Create(device))),
        queue_(device, stream_.get(),
               workspace_bytes == 0 ? DeviceBuffer()
                                    : Taken(DeviceBuffer::Create(device, workspace_bytes))) {}

  const DeviceQueue& queue() const { return queue_; }
  Status Wait() const { return queue_.device().Synchronize(stream_.get()); }

 private:
  DeviceStream stream_;
  DeviceQueue queue_;
};

// Memory of a card, with a numpy array's bytes in it.
class CardArray {
 public:
  CardArray(const Lane& lane, const py::array& array, size_t offset)
      : lane_(lane), offset_(offset), bytes_(static_cast<size_t>(array.nbytes())) {
    if ((array.flags() & py::array::c_style) == 0) throw py::value_error("not contiguous");
    buffer_ = Taken(DeviceBuffer::Create(lane.queue().shared_device(), bytes_ + offset + 1));
    Write(array);
  }
  void Write(const py::array& array) {
    if (static_cast<size_t>(array.nbytes()) != bytes_) throw py::value_error("another size");
    Copy(address(), array.data(), CopyKind::kHostToDevice);
  }
  // Into `array`.
  void Read(py::array& array) const {
    if (static_cast<size_t>(array.nbytes()) != bytes_) throw py::value_error("another size");
    Copy(array.mutable_data(), address(), CopyKind::kDeviceToHost);
  }
  // On another lane, without Python.
  Status Fetch(const Lane& lane, std::vector<char>& bytes) const {
    TUNABLEOP_RETURN_IF_ERROR(lane.queue().device().Copy(
        bytes.data(), address(), bytes_, CopyKind::kDeviceToHost, lane.queue().stream()));
    return lane.Wait();
  }
  size_t bytes() const { return bytes_; }
  void* address() const { return static_cast<char*>(buffer_.data()) + offset_; }

 private:
  void Copy(void* to, const void* from, CopyKind kind) const {
    ThrowIfError(lane_.queue().device().Copy(to, from, bytes_, kind, lane_.queue().stream()));
    ThrowIfError(lane_.Wait());
  }

  const Lane& lane_;
  const size_t offset_;
  const size_t bytes_;
  DeviceBuffer buffer_;
};

class CardKernel {
 public:
  explicit CardKernel(std::unique_ptr<Plan> plan) : plan_(std::move(plan)) {}

  bool needs_transposed_b() const { return plan_->needs_transposed_b(); }

  void Run(const Lane& lane, const CardArray& a, const CardArray* b, const CardArray& c,
           const CardArray* bias, const CardArray* b_transposed, float alpha, float beta) const {
    QueueExecutor executor(lane.queue());
    const Operands operands = MakeOperands(a, b, c, bias, b_transposed, alpha, beta);
    const py::gil_scoped_release release;
    Status status = plan_->Run(operands, executor);
    if (status.ok()) status = lane.Wait();
    const py::gil_scoped_acquire acquire;
    ThrowIfError(status);
  }

  // Without waiting for it: what a graph can capture.
  void Enqueue(const Lane& lane, const CardArray& a, const CardArray& b, const CardArray& c,
               float alpha, float beta) const {
    QueueExecutor executor(lane.queue());
    ThrowIfError(plan_->Run(MakeOperands(a, &b, c, nullptr, nullptr, alpha, beta), executor));
  }

  // On the CPU, as no provider should call it.
  void RunWithoutQueue() const {
    SerialExecutor executor;
    ThrowIfError(plan_->Run(Operands{}, executor));
  }

  // One thread for each lane, all at once: `rounds` calls with a bias and a C of its own. Every
  // call must give what the first gave, bit for bit; whether that is right, the caller looks.
  void Hammer(const std::vector<const Lane*>& lanes, const CardArray& a, const CardArray& b,
              const std::vector<const CardArray*>& biases, const std::vector<const CardArray*>& cs,
              int rounds) const {
    std::vector<Status> failures(lanes.size());
    {
      const py::gil_scoped_release release;
      std::vector<std::thread> threads;
      for (size_t i = 0; i < lanes.size(); ++i) {
        threads.emplace_back([&, i] {
          QueueExecutor executor(lanes[i]->queue());
          const Operands operands = MakeOperands(a, &b, *cs[i], biases[i], nullptr, 1.0F, 0.0F);
          std::vector<char> first;
          for (int round = 0; round < rounds && failures[i].ok(); ++round) {
            failures[i] = plan_->Run(operands, executor);
            std::vector<char> now(cs[i]->bytes());
            if (failures[i].ok()) failures[i] = cs[i]->Fetch(*lanes[i], now);
            if (round == 0) first = now;
            if (failures[i].ok() && now != first) {
              failures[i] =
                  Status(StatusCode::kInternal, "another answer in round " + std::to_string(round));
            }
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
    }
    for (const Status& failure : failures) ThrowIfError(failure);
  }

 private:
  static Operands MakeOperands(const CardArray& a, const CardArray* b, const CardArray& c,
                               const CardArray* bias, const CardArray* b_transposed, float alpha,
                               float beta) {
    Operands operands;
    operands.a = a.address();
    if (b != nullptr) operands.b = b->address();
    if (b_transposed != nullptr) operands.b_transposed = b_transposed->address();
    operands.c = c.address();
    if (bias != nullptr) operands.bias = bias->address();
    operands.alpha = alpha;
    operands.beta = beta;
    return operands;
  }

  std::unique_ptr<Plan> plan_;
};

// A library on a card.
class CardLibrary {
 public:
  CardLibrary(size_t card, const std::string& library) {
    const auto gpus = Gpus();
    if (card >= gpus.size()) ThrowIfError({StatusCode::kNotFound, "there is no such card"});
    device_ = gpus[card].device;
    for (const auto& backend : gpus[card].backends) {
      if (backend->library() == library) backend_ = backend;
    }
    if (backend_ == nullptr) ThrowIfError({StatusCode::kNotSupported, gpus[card].reason});
  }

  std::string identity() const { return backend_->identity(); }
  std::unique_ptr<Lane> MakeLane(size_t workspace_bytes) const {
    return std::make_unique<Lane>(device_, workspace_bytes);
  }
  std::vector<Candidate> Candidates(const Problem& problem, bool scope_all) const {
    return backend_->Candidates(problem,
                                scope_all ? CandidateScope::kAll : CandidateScope::kDefault);
  }
  std::vector<Candidate> Explore(const Problem& problem,
                                 const std::vector<std::pair<Candidate, double>>& known,
                                 uint64_t seed, size_t count) const {
    std::vector<TimedCandidate> timed;
    for (const auto& [candidate, ms] : known) timed.push_back({candidate, ms});
    return backend_->Explore(problem, timed, seed, count);
  }
  std::unique_ptr<CardKernel> Prepare(const Problem& problem, const Candidate& candidate) const {
    return std::make_unique<CardKernel>(Taken(backend_->Prepare(problem, candidate)));
  }

 private:
  std::shared_ptr<const Device> device_;
  std::shared_ptr<const Backend> backend_;
};

}  // namespace

void BindLt(py::module_& module) {
  py::class_<Lane>(module, "Lane").def_property_readonly("stream", [](const Lane& lane) {
    return reinterpret_cast<uintptr_t>(lane.queue().stream());
  });
  py::class_<CardArray>(module, "CardArray")
      .def(py::init<const Lane&, const py::array&, size_t>(), py::arg("lane"), py::arg("array"),
           py::arg("offset") = 0, py::keep_alive<1, 2>())
      .def("write", &CardArray::Write)
      .def("read", &CardArray::Read);
  py::class_<CardKernel>(module, "CardKernel")
      .def_property_readonly("needs_transposed_b", &CardKernel::needs_transposed_b)
      .def("run", &CardKernel::Run, py::arg("lane"), py::arg("a"), py::arg("b"), py::arg("c"),
           py::arg("bias") = py::none(), py::arg("b_transposed") = py::none(),
           py::arg("alpha") = 1.0F, py::arg("beta") = 0.0F)
      .def("enqueue", &CardKernel::Enqueue, py::arg("lane"), py::arg("a"), py::arg("b"),
           py::arg("c"), py::arg("alpha") = 1.0F, py::arg("beta") = 0.0F)
      .def("run_without_queue", &CardKernel::RunWithoutQueue)
      .def("hammer", &CardKernel::Hammer, py::arg("lanes"), py::arg("a"), py::arg("b"),
           py::arg("biases"), py::arg("cs"), py::arg("rounds"));
  py::class_<CardLibrary>(module, "CardLibrary")
      .def(py::init<size_t, const std::string&>(), py::arg("card"), py::arg("library"))
      .def_property_readonly("identity", &CardLibrary::identity)
      .def("lane", &CardLibrary::MakeLane, py::arg("workspace_bytes"))
      .def("candidates", &CardLibrary::Candidates, py::arg("problem"), py::arg("scope_all") = false)
      .def("explore", &CardLibrary::Explore, py::arg("problem"), py::arg("known"), py::arg("seed"),
           py::arg("count"))
      .def("prepare", &CardLibrary::Prepare, py::arg("problem"), py::arg("candidate"));
}

}  // namespace tunableop::bindings
