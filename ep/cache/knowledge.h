// All that one machine's section of a results document holds. No pointers, no plans.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/record.h"
#include "gemm/problem.h"

namespace tunableop {

// A problem that was met and how often: what tuning offline starts from (tuning=record).
struct SeenRecord {
  Problem problem;
  uint64_t uses = 0;
};

// What a node of a model really sees, in all its shapes, weighted by their uses: whether the stock
// provider would run it faster.
struct NodeRecord {
  std::string op;    // "MatMul"
  std::string name;  // of the node; an empty name is never recorded
  int64_t k = 0;     // of its constant B; 0, 0: B is computed
  int64_t n = 0;
  uint64_t uses = 0;
  double ours_ms = 0.0;   // mean of a call, over the uses
  double stock_ms = 0.0;  // the same on the stock provider
  bool stock = false;     // the stock provider is faster beyond min_gain and noise
  int64_t measured_at = 0;
};

// How nodes that run as one are run, where there are several ways: which of them was faster.
struct FormRecord {
  std::string group;  // the pattern: "MatMul+Add"
  std::string shape;  // what the choice is for, in the group's own words: "M=128,N=768,K=768,fp16"
  std::string form;
  std::string usual_form;        // that runs where nothing was measured
  std::string library_identity;  // of all libraries and of this one, when it was measured
  double form_ms = 0.0;          // medians; 0: not measured
  double usual_ms = 0.0;
  bool cold = false;  // caches were overwritten before each call
  int64_t measured_at = 0;
};

// A kernel that must not run: wrong, hung, or it killed the process that tried it.
struct DeniedRecord {
  std::string library;
  std::string kernel;
  std::string library_identity;
  std::string reason;
  int deaths = 0;         // processes that ended while it ran
  int64_t denied_at = 0;  // seconds since 1970-01-01 UTC
  int64_t until = 0;      // 0: for good
};

// Wall clock spent measuring on one day (UTC), by all processes that save to this file.
struct SpentRecord {
  int64_t day = 0;  // since 1970-01-01
  double ms = 0.0;
};

// A member with an initialiser may be left out by who names the others; gcc warns otherwise.
struct Knowledge {
  // NOLINTBEGIN(readability-redundant-member-init)
  std::vector<Record> records = {};
  std::vector<SeenRecord> seen = {};
  std::vector<NodeRecord> nodes = {};
  std::vector<FormRecord> forms = {};
  std::vector<DeniedRecord> denied = {};
  // To SaveFile: what was spent since this session's last save, which is added to what the file
  // has of the same day. From LoadFile: what the file has.
  SpentRecord spent = {};
  // NOLINTEND(readability-redundant-member-init)
};

}  // namespace tunableop
