// The process that a live run consists of to whoever asked for it: it owns the run's folder, its
// secrets and the agents' processes, and passes on what the controller and the client say to each
// other. The controller is its child: one that dies is started again, at most three times, and goes
// on from its journal while the agents wait for it. Whatever ends this process ends all of them.
// One thread.
#pragma once

namespace orrery::live {

inline constexpr unsigned kControllerRestarts = 3;

/// Body of `orrery-live` without arguments: serves one request on kChildDescriptor. Returns the
/// exit code. Throws a usage Error if nobody asks.
int run_supervisor();

/// Body of `orrery-live controller DESCRIPTOR`.
int run_controller(int descriptor);

}  // namespace orrery::live
