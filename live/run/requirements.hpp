// Requirements of live mode on a scenario.
#pragma once

#include "traces/run.pb.h"

namespace orrery::live {

/// Checks that live mode can run `request`. Throws bad_input that names the key, and an environment
/// Error if this machine lacks NCCL for fabric nccl.
void check_request(const RunRequest& request);

}  // namespace orrery::live
