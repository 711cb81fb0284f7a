// Options of a plan as people write them, for `orrery plan` and orrery.plan(). Pure functions, but
// for the files of failures and prices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/planning/candidates.hpp"

namespace orrery::sim {

/// Words of a planner. Empty words are open: assumed, or no goal.
struct PlanOptions {
  LayoutQuestion job;       ///< model, sequence, batch, stack and precision
  std::string clusters;     ///< presets or files, "dgx-h100,dgx-b200"
  std::string gpus;         ///< "512", "256,512" or "64..512"
  std::string tokens;       ///< "2T", "300B", "2e12"
  std::string deadline;     ///< "60 d", or a date "2027-03-01", which needs `start`
  std::string start;        ///< date of the first step, "2027-01-01"
  std::string budget;       ///< USD: "1500000", "1.5M"
  std::string instances;    ///< names of the table of prices, one for each GPU
  std::string grid;         ///< name of the table of prices
  std::string prices;       ///< file with prices of one's own
  std::string measured;     ///< table of measured runs, of which the nearest one is named
  std::string recovery;     ///< "restart" (the default), "replace" or "any"
  std::string failures;     ///< name of a profile, "none", or a file with a section `failures`
  double confidence = 80;   ///< wanted probability, per cent
  double batch_change = 5;  ///< largest change, per cent
  std::uint32_t seeds = 1000;
};

/// Returns the question. `overrides`: "path=value" of the scenario. Throws a usage Error that names
/// the option, the expected form and the found text, and bad_input for an unreadable file.
PlanQuestion question_of(const PlanOptions& options, const std::vector<std::string>& overrides);

/// Returns a number with an optional suffix k, M, B, G or T (powers of 1000), for example 2e12 for
/// "2T". Throws a usage Error that names `option`.
double number_of(const std::string& option, const std::string& text);

/// Returns the seconds between two dates "2027-01-01", the second one later. Throws a usage Error
/// that names `option`.
double seconds_between(const std::string& option, const std::string& from, const std::string& to);

}  // namespace orrery::sim
