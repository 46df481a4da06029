#include <array>
#include <optional>
#include <utility>

#include "tuner/device_answers.h"
#include "tuner/host_memory.h"
#include "tuner/operand_ranges.h"
#include "tuner/scratch.h"

namespace tunableop {
namespace {

OperandRanges Read(const DeviceAnswers::Setting& setting) noexcept {
  OperandRanges ranges = RangesOf(setting.problem, setting.operands);
  if (setting.operands.beta == 0.0F) ranges.c = {};
  return ranges;
}

class WholeAnswers final : public DeviceAnswers {
 public:
  explicit WholeAnswers(MeasuringStream& stream) : DeviceAnswers(stream) {}

  ~WholeAnswers() override {
    if (stream_.broken()) return;
    // The next owner of this memory may read it before writing, and should find no NaN of ours.
    for (void* memory : {scratch_, template_}) {
      if (memory == nullptr) continue;
      static_cast<void>(stream_.device().Fill(memory, 0, size_, stream_.native()));
    }
  }

  Status SetUp(const Setting& setting) {
    host_bytes_ = HostBytesOfWhole(setting);
    if (host_bytes_ > setting.max_bytes) {
      return {StatusCode::kOutOfMemory, "checking takes copies of " + std::to_string(host_bytes_) +
                                            " bytes on the host, more than the ceiling of " +
                                            std::to_string(setting.max_bytes)};
    }
    Result<size_t> size = Scratch::BytesFor(setting.problem, setting.max_bytes);
    if (!size.ok()) return size.TakeStatus();
    size_ = size.value();
    TUNABLEOP_RETURN_IF_ERROR(AllocateOnCard(setting.max_bytes));
    Result<HostMemory> memory = HostMemory::Create(stream_, size_, true);
    if (!memory.ok()) return memory.TakeStatus();
    memory_ = std::move(memory.value());
    image_.emplace(Scratch::Image(setting.problem, memory_.data()));
    c_ = static_cast<char*>(scratch_) +
         (static_cast<char*>(image_->c()) - static_cast<char*>(memory_.data()));
    if (setting.verify) TUNABLEOP_RETURN_IF_ERROR(Download(setting));
    return Upload(setting);
  }

  Status Prepare() override {
    if (template_ != nullptr) {
      return stream_.Copy(scratch_, template_, size_, CopyKind::kDeviceToDevice);
    }
    if (!verifier_) return Status::Ok();
    image_->PoisonAll();
    verifier_->Prepare(*image_);
    TUNABLEOP_RETURN_IF_ERROR(
        stream_.Copy(scratch_, memory_.data(), size_, CopyKind::kHostToDevice));
    return stream_.Finish();  // the image is to be written over
  }

  Result<Verifier::Verdict> Check(const std::string& name) override {
    TUNABLEOP_RETURN_IF_ERROR(
        stream_.Copy(memory_.data(), scratch_, size_, CopyKind::kDeviceToHost));
    TUNABLEOP_RETURN_IF_ERROR(stream_.Finish());
    return verifier_->Check(*image_, name);
  }

 private:
  Status AllocateOnCard(size_t max_bytes) {
    Result<void*> scratch = stream_.Allocate(size_);
    if (!scratch.ok()) return scratch.TakeStatus();
    scratch_ = scratch.value();
    if (2 * size_ > max_bytes) return Status::Ok();
    if (Result<void*> memory = stream_.Allocate(size_); memory.ok()) {
      template_ = memory.value();
    }
    return Status::Ok();
  }

  Status Download(const Setting& setting) {
    const OperandRanges ranges = Read(setting);
    const std::array<Range, 4> parts = {ranges.a, ranges.b, ranges.c, ranges.bias};
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].data == nullptr || parts[i].bytes == 0) continue;
      Result<HostMemory> memory = HostMemory::Create(stream_, parts[i].bytes, false);
      if (!memory.ok()) return memory.TakeStatus();
      operands_[i] = std::move(memory.value());
      TUNABLEOP_RETURN_IF_ERROR(
          copies_.Fetch(stream_, operands_[i].data(), parts[i].data, parts[i].bytes));
    }
    TUNABLEOP_RETURN_IF_ERROR(stream_.Finish());
    view_ = setting.operands;
    view_.a = operands_[0].data();
    view_.b = operands_[1].data();
    view_.b_transposed = nullptr;
    view_.c = operands_[2].data();
    view_.bias = operands_[3].data();
    b_on_host_ = view_.b;
    verifier_.emplace(setting.problem, view_, setting.host, setting.budget,
                      setting.max_bytes - host_bytes_);
    verifier_->Prepare(*image_);
    return Status::Ok();
  }

  // What the scratch is before a run.
  Status Upload(const Setting& setting) {
    void* const first = template_ != nullptr ? template_ : scratch_;
    TUNABLEOP_RETURN_IF_ERROR(stream_.Copy(first, memory_.data(), size_, CopyKind::kHostToDevice));
    if (!setting.verify && setting.operands.beta != 0.0F) {
      const Range c = Read(setting).c;  // with its gaps, at which nobody looks
      char* to =
          static_cast<char*>(first) + (static_cast<char*>(c_) - static_cast<char*>(scratch_));
      TUNABLEOP_RETURN_IF_ERROR(stream_.Copy(to, c.data, c.bytes, CopyKind::kDeviceToDevice));
    }
    return stream_.Finish();
  }

  size_t size_ = 0;
  void* scratch_ = nullptr;   // on the card
  void* template_ = nullptr;  // on the card; null: no memory for it
  HostMemory memory_;         // of the image
  std::array<HostMemory, 4> operands_;
  Operands view_;
  std::optional<Scratch> image_;
  std::optional<Verifier> verifier_;
};

}  // namespace

size_t DeviceAnswers::HostBytesOfWhole(const Setting& setting) {
  const OperandRanges ranges = Read(setting);
  const size_t image = Scratch::BytesFor(setting.problem, SIZE_MAX).value();
  if (!setting.verify) return image;
  return image + ranges.a.bytes + ranges.b.bytes + ranges.c.bytes + ranges.bias.bytes;
}

Result<std::unique_ptr<DeviceAnswers>> DeviceAnswers::CreateWhole(const Setting& setting) {
  auto self = std::make_unique<WholeAnswers>(setting.stream);
  TUNABLEOP_RETURN_IF_ERROR(self->SetUp(setting));
  return std::unique_ptr<DeviceAnswers>(std::move(self));
}

}  // namespace tunableop
