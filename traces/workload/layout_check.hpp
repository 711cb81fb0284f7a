// Conditions between the keys of a job for a layout on ranks. Called by the step graph (which
// throws the first problem) and by the scenario check (which reports each with its place).
#pragma once

#include <string>
#include <vector>

#include "traces/scenario.pb.h"

namespace orrery {

/// Violated condition.
struct Problem {
  std::string path;  ///< relative to the job: "layout.tensor"
  std::string message;
};

/// Returns every problem of a job whose model is resolved and whose absent keys have their
/// defaults; empty if the job can be laid out. layout.tensor must not be 0 (not checked).
/// `even_shares`: all replicas must have equally many micro-batches. Throws bad_input for an
/// unknown built-in model.
std::vector<Problem> job_problems(const Job& job, bool even_shares = true);

/// Largest number of gradient buckets on one pipeline stage.
inline constexpr double kMostBuckets = 4096;

/// Largest number of micro-batches x stages of one replica: each is simulated separately, at about
/// 1 kB.
inline constexpr double kMostPasses = 1'000'000;

}  // namespace orrery
