// Which rank this process is, as the engine that started it (Slurm, or a launcher in the manner of
// torchrun) says in the environment.
#pragma once

#include <string>

#include "traces/run.pb.h"

namespace orrery::cli {

/// RANK and WORLD_SIZE, else SLURM_PROCID and SLURM_NTASKS; the controller at MASTER_ADDR and
/// MASTER_PORT if they are set, else through `folder`, in which each step of a Slurm job has one
/// of its own. `listen`: address of this machine; empty: the one that leads to the others. Throws a
/// usage Error if the environment does not say which rank this is.
Rendezvous rendezvous_of_environment(const std::string& folder, const std::string& listen);

}  // namespace orrery::cli
