// Rank of this process, from the environment variables of the program that started it (Slurm, or a
// launcher like torchrun). One thread.
#pragma once

#include <string>

#include "traces/run.pb.h"

namespace orrery::cli {

/// Returns the rank and the number of ranks from RANK and WORLD_SIZE, else from SLURM_PROCID and
/// SLURM_NTASKS. The controller is at MASTER_ADDR and MASTER_PORT if both are set; otherwise the
/// ranks find it by `folder`, in which each step of a Slurm job has a folder of its own (unless
/// `folder` has the user's token). `listen`: address of this machine; empty: for rank 0 MASTER_ADDR
/// or SLURM_LAUNCH_NODE_IPADDR. Throws a usage Error if the environment has no rank, a rank that is
/// not below the number of ranks, a text that is no number, or no address for rank 0.
Rendezvous rendezvous_of_environment(const std::string& folder, const std::string& listen);

}  // namespace orrery::cli
