// Setting and reading attributes of a descriptor by number, as both vendors' GEMM libraries do.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

namespace simgpu {

struct Attribute {
  int number;
  size_t offset;
  size_t size;
};

enum class AttributeResult { kOk, kUnknown, kBadSize };

inline const Attribute* FindAttribute(std::span<const Attribute> attributes, int number) {
  for (const Attribute& attribute : attributes) {
    if (attribute.number == number) return &attribute;
  }
  return nullptr;
}

inline AttributeResult Set(void* object, std::span<const Attribute> attributes, int number,
                           const void* from, size_t size) {
  const Attribute* const found = FindAttribute(attributes, number);
  if (found == nullptr) return AttributeResult::kUnknown;
  if (from == nullptr || size != found->size) return AttributeResult::kBadSize;
  std::memcpy(static_cast<char*>(object) + found->offset, from, size);
  return AttributeResult::kOk;
}

inline AttributeResult Get(const void* object, std::span<const Attribute> attributes, int number,
                           void* to, size_t size, size_t* written) {
  const Attribute* const found = FindAttribute(attributes, number);
  if (found == nullptr) return AttributeResult::kUnknown;
  if (written != nullptr) *written = found->size;
  if (size == 0) return AttributeResult::kOk;  // asks for the size only
  if (to == nullptr || size < found->size) return AttributeResult::kBadSize;
  std::memcpy(to, static_cast<const char*>(object) + found->offset, found->size);
  return AttributeResult::kOk;
}

}  // namespace simgpu
