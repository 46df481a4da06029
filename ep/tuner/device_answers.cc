#include "tuner/device_answers.h"

#include <new>
#include <utility>

namespace tunableop {
namespace {

constexpr size_t kImageAlignment = 64;

Status BeyondCeiling(size_t bytes, size_t max_bytes) {
  return {StatusCode::kOutOfMemory, "checking takes copies of " + std::to_string(bytes) +
                                        " bytes on the host, more than the ceiling of " +
                                        std::to_string(max_bytes)};
}

}  // namespace

Result<std::unique_ptr<DeviceAnswers>> DeviceAnswers::Create(
    const Problem& problem, const Operands& operands, MeasuringStream& stream, Executor& host,
    double reference_budget, size_t max_bytes, bool verify) {
  Result<size_t> bytes = Scratch::BytesFor(problem, max_bytes);
  if (!bytes.ok()) return bytes.TakeStatus();
  const size_t size = bytes.value();
  const size_t on_host = size + (verify ? DeviceOperands::BytesFor(problem, operands) : 0);
  if (on_host > max_bytes) return BeyondCeiling(on_host, max_bytes);

  std::unique_ptr<DeviceAnswers> self(new DeviceAnswers(stream));
  TUNABLEOP_RETURN_IF_ERROR(self->AllocateOnCard(size, max_bytes));
  Result<void*> memory = self->AllocateImage(size);
  if (!memory.ok()) return memory.TakeStatus();
  void* const image = memory.value();
  self->image_.emplace(Scratch::Image(problem, image));
  self->c_ = static_cast<char*>(self->scratch_) +
             (static_cast<char*>(self->image_->c()) - static_cast<char*>(image));
  if (verify) {
    Result<DeviceOperands> copies = DeviceOperands::Download(problem, operands, stream);
    if (!copies.ok()) return copies.TakeStatus();
    self->copies_ = std::move(copies.value());
    self->verifier_.emplace(problem, self->copies_.view(), host, reference_budget,
                            max_bytes - on_host);
    self->verifier_->Prepare(*self->image_);
  }
  void* const first = self->template_ != nullptr ? self->template_ : self->scratch_;
  TUNABLEOP_RETURN_IF_ERROR(stream.Copy(first, image, size, CopyKind::kHostToDevice));
  if (!verify && operands.beta != 0.0F) {
    const Range c = RangesOf(problem, operands).c;  // with its gaps, at which nobody looks
    TUNABLEOP_RETURN_IF_ERROR(
        stream.Copy(static_cast<char*>(first) +
                        (static_cast<char*>(self->c_) - static_cast<char*>(self->scratch_)),
                    c.data, c.bytes, CopyKind::kDeviceToDevice));
  }
  TUNABLEOP_RETURN_IF_ERROR(stream.Finish());
  return self;
}

DeviceAnswers::~DeviceAnswers() {
  if (stream_.broken()) return;
  // The next owner of this memory may read it before writing, and should find no NaN of ours.
  for (void* memory : {scratch_, template_}) {
    if (memory == nullptr) continue;
    static_cast<void>(stream_.device().Fill(memory, 0, image_bytes_, stream_.native()));
  }
}

Status DeviceAnswers::AllocateOnCard(size_t size, size_t max_bytes) {
  image_bytes_ = size;
  Result<void*> scratch = stream_.Allocate(size);
  if (!scratch.ok()) return scratch.TakeStatus();
  scratch_ = scratch.value();
  card_bytes_ = size;
  if (2 * size > max_bytes) return Status::Ok();
  if (Result<void*> memory = stream_.Allocate(size); memory.ok()) {
    template_ = memory.value();
    card_bytes_ += size;
  }
  return Status::Ok();
}

Result<void*> DeviceAnswers::AllocateImage(size_t size) {
  if (Result<void*> memory = stream_.AllocatePinned(size); memory.ok()) return memory.value();
  size_t space = size + kImageAlignment;
  pageable_.reset(new (std::nothrow) char[space]);
  if (pageable_ == nullptr) {
    return Status(StatusCode::kOutOfMemory,
                  "no memory on the host for a copy of " + std::to_string(size) + " bytes");
  }
  void* image = pageable_.get();
  return std::align(kImageAlignment, size, image, space);
}

Status DeviceAnswers::Prepare() {
  if (template_ != nullptr) {
    return stream_.Copy(scratch_, template_, image_bytes_, CopyKind::kDeviceToDevice);
  }
  if (!verifier_) return Status::Ok();
  image_->PoisonAll();
  verifier_->Prepare(*image_);
  TUNABLEOP_RETURN_IF_ERROR(
      stream_.Copy(scratch_, image_->memory(), image_bytes_, CopyKind::kHostToDevice));
  return stream_.Finish();  // the image is to be written over
}

Result<Verifier::Verdict> DeviceAnswers::Check(const std::string& name) {
  TUNABLEOP_RETURN_IF_ERROR(
      stream_.Copy(image_->memory(), scratch_, image_->bytes(), CopyKind::kDeviceToHost));
  TUNABLEOP_RETURN_IF_ERROR(stream_.Finish());
  return verifier_->Check(*image_, name);
}

}  // namespace tunableop
