// LOG[@TIME] of `--from`: a recorded run from which another run continues. One thread.
#pragma once

#include <string>
#include <vector>

#include "core/units.hpp"
#include "traces/run.pb.h"
#include "traces/scenario/scenario.hpp"

namespace orrery::cli {

/// Log from which a run continues, up to an instant.
struct FromLog {
  LogOrder order;
  Nanos at = 0;  ///< instant up to which the log is read, at most the log's end

  /// Returns the log's scenario with `overrides` ("path=value"). Throws as parse_scenario() for an
  /// override that is not valid, and bad_input if the log cannot be read any more.
  LoadedScenario load(const std::vector<std::string>& overrides) const;
};

/// Returns the log to continue from. `written`: a file name, or a file name with @ and a time, for
/// example "train.log@90s"; an @ without a valid time is a part of the file name. Without a time,
/// `at` is the instant of the last call (0 without calls). Reads the whole log, and writes a note
/// to stderr if the log has a newer format. Throws bad_input if the file is not the log of a
/// scenario, is damaged, or ends before the time.
FromLog from_log(const std::string& written);

}  // namespace orrery::cli
