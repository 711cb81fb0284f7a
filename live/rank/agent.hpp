// Process of one rank of a live run: the body of `orrery-live agent`. Reads an AgentStart from the
// inherited socket, joins the controller and trains until the controller stops the run.
#pragma once

#include <cstdint>

#include "live/control.pb.h"

namespace orrery::live {

/// Runs the agent of `rank` until the run ends. Returns the exit code. An agent whose controller is
/// gone for good ends by itself.
int run_agent(std::uint32_t rank);
/// Runs the agent of `rank` with `start` instead of the inherited socket's message. Returns the
/// exit code.
int run_agent(std::uint32_t rank, const AgentStart& start);

}  // namespace orrery::live
