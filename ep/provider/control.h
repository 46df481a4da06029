// The control interface: what the Python package asks of sessions that live behind ONNX Runtime.
// Private to the package and versioned with it; other languages use set_ep_dynamic_options
// ("cache.save", "cache.load").
#pragma once

#include <cstddef>

extern "C" {

// Carries out `method` with `arguments` (a JSON object; "token" names the session as given by the
// dynamic option session.token). Returns 0 and JSON text in `*reply`, or a tunableop::StatusCode
// and an error text in
// `*reply`. The caller frees `*reply` with TunableOpControlFree. Thread-safe, throws nothing.
//
//   method          arguments              reply
//   version         {}                     {"version", "onnxruntime", "api_version"}
//   targets         {}                     [{"device", "fingerprint", "libraries": {name:
//                                          identity}}]: what sessions could run on
//   openblas_path   {path}                 {}; before the first session
//   stats           {token}                {"hits", "misses", "tuned", "tuning_seconds", "evicted",
//   ...} explain         {token}                {"nodes": [...], "shapes": [...], "notes": [...],
//   "options": {...}} get_results     {token}                the tuning results document
//   set_results     {token, results}       {"taken": n, "problems": [...]}
//   load_cache      {token, path}          {"problems": [...]}
//   save_cache      {token, path}          {}
//   save_own_cache  {token}                {}
//   graph           {token, id}            {"captured", "bytes", "refused"}
//   release_graph   {token, id, for_room}  {}
//   note_graphs     {token, line}          {}; why there are none
//   measure_stock   {m, n, k, ...}         {"median_ms", "alone_ms", ...}; see
//                                          provider/stock_check.h, whose fields the arguments are,
//                                          all integers; once ONNX Runtime has loaded the library
__attribute__((visibility("default"))) int TunableOpControl(const char* method,
                                                            const char* arguments, char** reply);
__attribute__((visibility("default"))) void TunableOpControlFree(char* reply);

// Of one bound buffer, on the card, with the host's.
struct TunableOpTransfer {
  void* card;
  void* host;
  size_t bytes;
};
// Fills buffers that the graph `id` of a session reads, launches it and fetches what it wrote.
// Returns when that is done: 0, or a StatusCode and an error text in `*error`, freed as above.
// kNotFound: there is no such graph (now): ONNX Runtime's Run captures it (again). Thread-safe, but
// for the buffers.
__attribute__((visibility("default"))) int TunableOpReplay(const char* token, int id,
                                                           const TunableOpTransfer* in,
                                                           size_t in_count,
                                                           const TunableOpTransfer* out,
                                                           size_t out_count, char** error);

}  // extern "C"
