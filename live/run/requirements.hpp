// What of a scenario live mode can run.
#pragma once

#include "traces/run.pb.h"

namespace orrery::live {

/// Throws bad_input naming the key, or usage or environment for what the command line asked for
/// and this machine or version does not have.
void check_request(const RunRequest& request);

}  // namespace orrery::live
