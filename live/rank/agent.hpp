// Process of one rank of a live run: the body of `orrery-live agent`. Reads an AgentStart from the
// inherited socket, joins the controller and trains until the controller stops the run.
#pragma once

#include <cstdint>

#include "live/control.pb.h"

namespace orrery::live {

/// Runs the agent of `rank` until the run ends. Returns the exit code: 0 after training, also if
/// this rank's training failed, which is reported to the controller; the kind of an error that the
/// agent reports to its controller before training; or that of an environment Error if the
/// controller refuses this rank or is gone for good. Blocks meanwhile. Throws a usage Error without
/// an AgentStart, an environment Error if the secrets cannot be read.
int run_agent(std::uint32_t rank);
/// Runs the agent of `rank` with `start` instead of the inherited socket's message. Returns the
/// exit code, kJoinAgain instead of an environment Error's; throws as the other, except for the
/// usage Error.
int run_agent(std::uint32_t rank, const AgentStart& start);

}  // namespace orrery::live
