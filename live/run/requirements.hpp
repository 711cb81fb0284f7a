// Requirements of live mode on a scenario.
#pragma once

#include "traces/run.pb.h"

namespace orrery::live {

/// Checks that live mode can run `request`. Throws bad_input that names the key, and a usage or
/// environment Error for options that this machine or version does not support.
void check_request(const RunRequest& request);

}  // namespace orrery::live
