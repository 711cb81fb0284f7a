// Supervisor of a live run: owns the run's folder, its secrets and the agents' processes, and
// forwards messages between controller and client. The controller is its child: a dead controller
// is restarted at most three times, and continues from its journal while the agents wait. The end
// of this process ends all of them. One thread.
#pragma once

namespace orrery::live {

inline constexpr unsigned kControllerRestarts = 3;

/// Runs `orrery-live` without arguments: serves one request on kChildDescriptor. Blocks until the
/// run has ended. Returns the exit code. Reports errors to the client; throws a usage Error without
/// a client.
int run_supervisor();

/// Runs `orrery-live controller DESCRIPTOR`, a child of the supervisor at the other end of the
/// socket `descriptor`; blocks until the run has ended. Returns the exit code, as serve_run().
/// Throws a usage Error without a supervisor.
int run_controller(int descriptor);

}  // namespace orrery::live
