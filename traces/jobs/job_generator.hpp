// Synthetic job logs: arrivals in bursts, sizes, durations and time limits, drawn so that their
// means equal the published means of a real cluster. Called by `orrery new jobs`. Thread-safe;
// seconds of the log.
//
// The published values (summary of AcmeTrace, Hu et al., NSDI 2024) are the mean GPUs and the mean
// run time of a job, the fractions of jobs that completed, were cancelled or failed, and their
// fractions of GPU time; for Seren also the variation of the gaps between arrivals and the fraction
// of arrivals in the same second. The rest is assumed: sizes are powers of two with a constant
// ratio of probabilities between neighbours, run times and gaps are log-normal, users follow Zipf's
// law, and a time limit is one of the next larger values of a list. Jobs of one user, name and size
// resemble each other only if the caller asks for habits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/jobs/job_trace.hpp"

namespace orrery {

/// Published statistics of a cluster's jobs.
struct JobMix {
  std::string name;
  double mean_gpus = 1, mean_run_s = 1;
  /// Shares of the jobs that end in one way. Fractions of all jobs and of their GPU time.
  struct Ending {
    double share_of_jobs = 0, share_of_gpu_time = 0;
  };
  Ending completed, cancelled, failed;
  double gap_variation = 1;     ///< standard deviation over mean of the positive gaps
  double same_second = 0;       ///< fraction of jobs that arrive together with the previous one
  std::uint32_t most_gpus = 1;  ///< largest job
};

/// Returns the statistics of a cluster: seren, kalos, philly, helios. Throws a usage Error with the
/// nearest name.
const JobMix& job_mix(const std::string& name);
/// Returns the names that job_mix() knows.
std::vector<std::string> job_mix_names();

/// Parameters of a synthetic log.
struct JobDraw {
  std::uint32_t jobs = 10'000;
  std::uint32_t gpus = 512;  ///< GPUs of the cluster; no job requests more
  /// Requested GPU-seconds / available GPU-seconds between the first and the last submission.
  double load = 0.8;
  std::uint64_t seed = 1;
  /// Fraction, from 0 to 1, of the variance of the logarithm of run times, and of the kind of end,
  /// that belongs to the user, name and size of a job; the rest is the job's own. Above 0, one
  /// factor stretches all run times so that their mean is the published one. For example, 0.8: who
  /// knows the earlier jobs of a user, name and size, knows 80% of the variance of the next job's.
  double habits = 0;
};

/// Returns the jobs of a synthetic log in order of submission. Equal arguments give equal jobs.
/// `draw.load` and `draw.gpus` must be above 0.
std::vector<TraceJob> draw_jobs(const JobMix& mix, const JobDraw& draw);

}  // namespace orrery
