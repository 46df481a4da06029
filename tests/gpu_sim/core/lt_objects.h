// What a descriptor, a layout and a preference hold, in both vendors' GEMM libraries. Offsets of
// the vendors' attributes point into these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/attributes.h"
#include "core/faults.h"
#include "core/gemm.h"
#include "core/graveyard.h"

namespace simgpu {

struct LtHandle {
  static constexpr uint32_t kMagic = 0x51A4D1E0;
  uint32_t magic = kMagic;
  int ordinal = 0;
};

struct LtLayout {
  static constexpr uint32_t kMagic = 0x51A1A707;
  uint32_t magic = kMagic;
  int32_t type = 0;
  int32_t order = 0;  // 0 columns, 1 rows
  int32_t batch = 1;
  uint64_t rows = 0;
  uint64_t columns = 0;
  int64_t ld = 0;
  int64_t batch_stride = 0;
  int64_t plane_offset = 0;
};

struct LtDescriptor {
  static constexpr uint32_t kMagic = 0x51ADE5C0;
  uint32_t magic = kMagic;
  int32_t compute = 0;
  int32_t scale_type = 0;
  int32_t pointer_mode = 0;
  int32_t trans_a = 0;
  int32_t trans_b = 0;
  int32_t trans_c = 0;
  int32_t fill_mode = 0;
  uint32_t epilogue = 1;
  int32_t bias_type = -1;  // as D
  void* bias = nullptr;
  int64_t bias_stride = 0;
  int32_t bias_stride32 = 0;  // hipBLASLt's is narrower
  int32_t units = 0;
  void* aux = nullptr;
  int64_t aux_ld = 0;
  int64_t aux_stride = 0;
  int32_t aux_type = -1;
  int8_t fast_accumulation = 0;
  void* scales[6] = {};
  int32_t input_types[2] = {-1, -1};
  float activation_arguments[2] = {};
};

struct LtPreference {
  static constexpr uint32_t kMagic = 0x51A93EF0;
  uint32_t magic = kMagic;
  uint32_t search_mode = 0;
  uint64_t workspace = 0;
  uint32_t reductions = 7;
  uint32_t alignment[4] = {256, 256, 256, 256};
  float waves = 0;
  uint64_t implementations = ~uint64_t{0};
  int32_t units = 0;
};

template <typename T>
T* Checked(void* object) {
  auto* const typed = static_cast<T*>(object);
  return typed != nullptr && typed->magic == T::kMagic ? typed : nullptr;
}
template <typename T>
const T* Checked(const void* object) {
  return Checked<T>(const_cast<void*>(object));
}

// False: an argument is wrong.
template <typename T>
bool Make(void** out) {
  if (out == nullptr) return false;
  *out = new T;
  Count("descriptors");
  return true;
}
template <typename T>
bool Destroy(void* object) {
  T* const typed = Checked<T>(object);
  if (typed == nullptr) return false;
  typed->magic = 0;
  Bury(std::shared_ptr<T>(typed));
  Count("descriptors_destroyed");
  return true;
}
template <typename T>
bool SetIn(void* object, std::span<const Attribute> attributes, int number, const void* from,
           size_t size) {
  T* const typed = Checked<T>(object);
  return typed != nullptr && Set(typed, attributes, number, from, size) == AttributeResult::kOk;
}
template <typename T>
bool GetFrom(const void* object, std::span<const Attribute> attributes, int number, void* to,
             size_t size, size_t* written) {
  const T* const typed = Checked<T>(object);
  return typed != nullptr &&
         Get(typed, attributes, number, to, size, written) == AttributeResult::kOk;
}

#define SIM_ATTRIBUTE(number, type, field) {number, offsetof(type, field), sizeof(type::field)}

// A matrix of the layout, transposed or not. data stays null.
inline Matrix View(const LtLayout& layout, Type type, bool transposed) {
  Matrix matrix;
  matrix.type = type;
  matrix.row_stride = layout.order == 0 ? 1 : layout.ld;
  matrix.column_stride = layout.order == 0 ? layout.ld : 1;
  matrix.batch_stride = layout.batch_stride;
  if (transposed) {
    matrix.row_stride = layout.order == 0 ? layout.ld : 1;
    matrix.column_stride = layout.order == 0 ? 1 : layout.ld;
  }
  return matrix;
}

enum class Shape { kGood, kBad, kNotSupported };

// The GEMM that the descriptors describe, without addresses. kBad: they contradict each other.
inline Shape ShapeOf(const LtLayout& a, const LtLayout& b, const LtLayout& c, const LtLayout& d,
                     bool trans_a, bool trans_b, Type ab_type, Type c_type, Type d_type,
                     Gemm* gemm) {
  gemm->m = static_cast<int64_t>(d.rows);
  gemm->n = static_cast<int64_t>(d.columns);
  gemm->k = static_cast<int64_t>(trans_a ? a.rows : a.columns);
  gemm->batch = d.batch;
  const auto m = static_cast<int64_t>(trans_a ? a.columns : a.rows);
  const auto k = static_cast<int64_t>(trans_b ? b.columns : b.rows);
  const auto n = static_cast<int64_t>(trans_b ? b.rows : b.columns);
  if (m != gemm->m || k != gemm->k || n != gemm->n) return Shape::kBad;
  if (c.rows != d.rows || c.columns != d.columns) return Shape::kBad;
  for (const LtLayout* layout : {&a, &b, &c, &d}) {
    if (layout->order != 0 && layout->order != 1) return Shape::kNotSupported;
    const uint64_t shortest = layout->order == 0 ? layout->rows : layout->columns;
    if (layout->ld < static_cast<int64_t>(shortest)) return Shape::kBad;
    if (layout->batch != d.batch || layout->batch < 1) return Shape::kBad;
    if (layout->rows == 0 || layout->columns == 0) return Shape::kBad;
  }
  if (d.batch > 1 && d.batch_stride == 0) return Shape::kBad;
  gemm->a = View(a, ab_type, trans_a);
  gemm->b = View(b, ab_type, trans_b);
  gemm->c = View(c, c_type, false);
  gemm->d = View(d, d_type, false);
  return Shape::kGood;
}

}  // namespace simgpu
