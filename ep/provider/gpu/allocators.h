// OrtAllocator on a card's memory.
#pragma once

#include <memory>

#include "abi/ort_c_api.h"
#include "gemm/status.h"
#include "provider/gpu/cards.h"
#include "provider/gpu/memory_pool.h"

namespace tunableop {

// Of one session. The caller owns it, and may keep it beyond the session; ReleaseAllocatorOfOurs.
OrtAllocator* MakeSessionAllocator(std::shared_ptr<MemoryPool> pool, const OrtMemoryInfo* info);

// Of ONNX Runtime's environment, for values that belong to no session: asks the card each time.
// `host`: page-locked memory. `card` outlives it.
OrtAllocator* MakeSharedAllocator(Card& card, bool host);

// Of either kind.
void ReleaseAllocatorOfOurs(OrtAllocator* allocator) noexcept;

}  // namespace tunableop
