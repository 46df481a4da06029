// Inner loops in versions for the processors that matter, of which the loader picks one. Not under
// a sanitizer: its run-time is not ready when that happens.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define TUNABLEOP_VERSIONS \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define TUNABLEOP_VERSIONS
#endif
