// Requirements of live mode on a scenario.
#pragma once

#include "traces/run.pb.h"

namespace orrery::live {

/// Checks that live mode can run `request`. Throws bad_input that names the key, and an environment
/// Error for fabric nccl if the CUDA module, the driver, a device or NCCL is missing or too old.
void check_request(const RunRequest& request);

}  // namespace orrery::live
