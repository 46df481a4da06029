// The libraries' descriptions of a product, owned.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "backends/lt/api.h"
#include "backends/lt/column_major.h"
#include "gemm/status.h"

namespace tunableop::lt {

// Something that a library made, and the function that destroys it. Movable.
class Foreign {
 public:
  using Destroy = int (*)(void*);

  Foreign() noexcept = default;
  Foreign(void* object, Destroy destroy) noexcept : object_(object), destroy_(destroy) {}
  Foreign(Foreign&& other) noexcept
      : object_(std::exchange(other.object_, nullptr)), destroy_(other.destroy_) {}
  Foreign& operator=(Foreign&& other) noexcept {
    Foreign moved(std::move(other));
    std::swap(object_, moved.object_);
    std::swap(destroy_, moved.destroy_);
    return *this;
  }
  ~Foreign() {
    if (object_ != nullptr) destroy_(object_);
  }

  void* get() const noexcept { return object_; }
  // It is never destroyed.
  void Abandon() noexcept { object_ = nullptr; }

 private:
  void* object_ = nullptr;
  Destroy destroy_ = nullptr;
};

template <typename V>
Result<Foreign> MakeLayout(const Api<V>& api, const ColumnMajorMatrix& matrix, DataType type,
                           int32_t batch) {
  void* object = nullptr;
  TUNABLEOP_RETURN_IF_ERROR(ToStatus<V>(
      api.layout_create(&object, V::TypeOf(type), matrix.rows, matrix.columns, matrix.ld),
      "MatrixLayoutCreate"));
  Foreign layout(object, api.layout_destroy);
  if (batch != 1) {
    TUNABLEOP_RETURN_IF_ERROR(
        ToStatus<V>(api.layout_set(object, V::kLayoutBatchCount, &batch, sizeof(batch)),
                    "MatrixLayoutSetAttribute(BATCH_COUNT)"));
    TUNABLEOP_RETURN_IF_ERROR(
        ToStatus<V>(api.layout_set(object, V::kLayoutStride, &matrix.stride, sizeof(matrix.stride)),
                    "MatrixLayoutSetAttribute(STRIDED_BATCH_OFFSET)"));
  }
  return layout;
}

template <typename V>
Status SetBias(const Api<V>& api, void* desc, const void* bias) {
  return ToStatus<V>(
      api.desc_set(desc, V::kDescBiasPointer, static_cast<const void*>(&bias), sizeof(bias)),
      "MatmulDescSetAttribute(BIAS_POINTER)");
}

template <typename V>
Result<Foreign> MakeDescriptor(const Api<V>& api, const ColumnMajorGemm& gemm) {
  const int scale = V::TypeOf(ScaleTypeOf(gemm.type));
  void* object = nullptr;
  TUNABLEOP_RETURN_IF_ERROR(
      ToStatus<V>(api.desc_create(&object, V::ComputeOf(gemm.type, gemm.precision), scale),
                  "MatmulDescCreate"));
  Foreign desc(object, api.desc_destroy);
  const auto set = [&](int attribute, int32_t value) {
    return ToStatus<V>(api.desc_set(object, attribute, &value, sizeof(value)),
                       "MatmulDescSetAttribute(" + std::to_string(attribute) + ")");
  };
  TUNABLEOP_RETURN_IF_ERROR(set(V::kDescTransA, gemm.first.transposed ? V::kOpT : V::kOpN));
  TUNABLEOP_RETURN_IF_ERROR(set(V::kDescTransB, gemm.second.transposed ? V::kOpT : V::kOpN));
  const bool relu = gemm.epilogue == Epilogue::kRelu || gemm.epilogue == Epilogue::kBiasRelu;
  const bool bias = HasBias(gemm.epilogue);
  if (relu || bias) {
    const int with_bias = relu ? V::kEpilogueReluBias : V::kEpilogueBias;
    TUNABLEOP_RETURN_IF_ERROR(set(V::kDescEpilogue, bias ? with_bias : V::kEpilogueRelu));
  }
  if (bias) {
    TUNABLEOP_RETURN_IF_ERROR(set(V::kDescBiasType, V::TypeOf(gemm.type)));
    // The libraries want to see a pointer before they say which kernels can add a bias.
    alignas(256) static constexpr char kSomewhere[256] = {};
    TUNABLEOP_RETURN_IF_ERROR(SetBias(api, object, kSomewhere));
  }
  return desc;
}

// A product as a library wants it described. Only the descriptor ever changes: its bias.
template <typename V>
struct Description {
  ColumnMajorGemm gemm;
  Foreign desc;
  Foreign first;
  Foreign second;
  Foreign out;

  static Result<Description> Make(const Api<V>& api, const ColumnMajorGemm& gemm) {
    Result<Foreign> desc = MakeDescriptor(api, gemm);
    if (!desc.ok()) return desc.TakeStatus();
    Result<Foreign> first = MakeLayout(api, gemm.first, gemm.type, gemm.batch);
    if (!first.ok()) return first.TakeStatus();
    Result<Foreign> second = MakeLayout(api, gemm.second, gemm.type, gemm.batch);
    if (!second.ok()) return second.TakeStatus();
    Result<Foreign> out = MakeLayout(api, gemm.out, gemm.type, gemm.batch);
    if (!out.ok()) return out.TakeStatus();
    return Description{gemm, std::move(desc).value(), std::move(first).value(),
                       std::move(second).value(), std::move(out).value()};
  }
};

}  // namespace tunableop::lt
