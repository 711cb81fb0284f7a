// One rank of a live run: the body of `orrery-live agent`. Reads an AgentStart from the inherited
// socket, joins the controller, trains until told to stop.
#pragma once

#include <cstdint>

#include "live/control.pb.h"

namespace orrery::live {

/// Returns the exit code. An agent whose controller is gone ends by itself.
int run_agent(std::uint32_t rank);
/// The same with orders of another origin.
int run_agent(std::uint32_t rank, const AgentStart& start);

}  // namespace orrery::live
