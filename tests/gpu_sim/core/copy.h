// Copies and fills, as operations of a stream.
#pragma once

#include <cstddef>

#include "core/error.h"

namespace simgpu {

enum class Direction { kHostToHost, kHostToDevice, kDeviceToHost, kDeviceToDevice, kDefault };

// `stream` as FindStream takes it. From and to ordinary memory the host waits.
Err Copy(void* to, const void* from, size_t bytes, Direction direction, void* stream,
         bool synchronous);
// `rows` times `width` bytes, so many bytes apart; on the card only.
Err CopyRows(void* to, size_t to_step, const void* from, size_t from_step, size_t width,
             size_t rows, Direction direction, void* stream);
Err Fill(void* to, int value, size_t bytes, void* stream);

// Which memory an address is.
enum class Where { kPageable, kPinned, kDevice };
Where WhereIs(const void* address, int* ordinal);

// Memory in the order of a stream.
Err AllocateOn(void** address, size_t bytes, void* stream);
Err FreeOn(void* address, void* stream);
Err Allocate(void** address, size_t bytes);
Err Free(void* address);
Err AllocateHost(void** address, size_t bytes);
Err FreeHost(void* address);
Err MemoryInfo(size_t* free, size_t* total);

}  // namespace simgpu
