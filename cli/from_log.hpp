// LOG[@TIME] of `--from`: a recorded run that another one goes on from. One thread.
#pragma once

#include <string>
#include <vector>

#include "core/units.hpp"
#include "traces/run.pb.h"
#include "traces/scenario/scenario.hpp"

namespace orrery::cli {

struct FromLog {
  LogOrder order;
  Nanos at = 0;  ///< the instant up to which the log is told

  /// The log's scenario with `overrides` ("path=value").
  LoadedScenario load(const std::vector<std::string>& overrides) const;
};

/// Throws bad_input on what is no log of a scenario. A name that ends in @ and a time is the log
/// up to that time.
FromLog from_log(const std::string& written);

}  // namespace orrery::cli
