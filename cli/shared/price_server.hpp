// Service that prices the operators of a rehearsed program. Called by `orrery rehearse`, which runs
// the program as a child and answers the questions of the part of Orrery inside the child
// (python/orrery/programs/prices.py). One thread. Seconds and bytes.
//
// A question and an answer are one JSON object each. For example
//   {"kernel": "gemm", "precision": "bf16", "m": 4096, "n": 4096, "k": 4096, "batch": 1,
//    "flop": 1.37e11, "bytes": 1e8, "name": ""}
//   {"collective": "all_gather", "members": [0, 1, 2, 3], "bytes": 1e9}
// have the answer {"seconds": S}; an invalid question has the answer {"error": "..."}.
#pragma once

#include <cstdint>
#include <string>

#include "sim/estimates/predict/operator_prices.hpp"

namespace orrery::cli {

/// Answers from the prices of one cluster. `prices` must outlive this object.
class PriceServer {
 public:
  explicit PriceServer(estimates::OperatorPrices& prices) : prices_(prices) {}

  /// Returns the answer to one question as JSON text. The message {"report": "TEXT"} has the answer
  /// {}; its text replaces report(). An invalid question has an answer with "error" and changes
  /// nothing; no Error leaves this function. The question must be UTF-8.
  std::string answer_question(const std::string& question);

  /// Returns the text of the last report; empty if none arrived.
  const std::string& report() const { return report_; }

 private:
  estimates::OperatorPrices& prices_;
  std::string report_;
};

}  // namespace orrery::cli
