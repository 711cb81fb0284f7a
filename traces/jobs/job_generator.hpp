// Synthetic job logs for those who have none: arrivals in bursts, sizes, durations and time limits,
// drawn so that their means are those published of a real cluster. Called by `orrery new jobs`.
// Thread-safe; seconds of the log.
//
// Published (summary of AcmeTrace, Hu et al., NSDI 2024): mean GPUs and mean run time of a job, the
// shares of jobs that completed, were cancelled or failed, and their shares of GPU time; for Seren
// also the variation of the gaps between arrivals and how many arrive in the same second. Ours,
// where nothing is published: sizes are powers of two with a constant ratio between neighbours, run
// times and gaps are log-normal, users are drawn by Zipf's law, time limits are the next of a menu.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/jobs/job_trace.hpp"

namespace orrery {

struct JobMix {
  std::string name;
  double mean_gpus = 1, mean_run_s = 1;
  struct Ending {
    double share_of_jobs = 0, share_of_gpu_time = 0;
  };
  Ending completed, cancelled, failed;
  double gap_variation = 1;     ///< standard deviation over mean of the gaps that are not 0
  double same_second = 0;       ///< share of jobs that arrive with the one before
  std::uint32_t most_gpus = 1;  ///< of a job
};

/// By name: seren, kalos, philly, helios. Throws a usage Error with the nearest name.
const JobMix& job_mix(const std::string& name);
std::vector<std::string> job_mix_names();

struct JobDraw {
  std::uint32_t jobs = 10'000;
  std::uint32_t gpus = 512;  ///< of the cluster: no job needs more
  double load = 0.8;         ///< GPU-seconds asked for over those there are between first and last
  std::uint64_t seed = 1;
};

std::vector<TraceJob> draw_jobs(const JobMix& mix, const JobDraw& draw);

}  // namespace orrery
