// State of other processes of this machine. Plain C++ without PyTorch, compiled into the user's
// program. Any thread.
#pragma once

#include <cstdint>

namespace orrery::live {

/// Returns true while the process runs. A process that has ended counts as ended even if nobody has
/// reaped it. Also true if the system does not tell.
bool is_running(std::int64_t process);

}  // namespace orrery::live
