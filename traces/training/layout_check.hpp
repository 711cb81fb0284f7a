// What must hold between the keys of a job before it can be laid out on ranks. Called by the step
// graph (which throws the first problem) and by the scenario check (which gives each its place).
#pragma once

#include <string>
#include <vector>

#include "traces/scenario.pb.h"

namespace orrery {

struct Problem {
  std::string path;  ///< relative to the job: "layout.tensor"
  std::string message;
};

/// Every problem of a job whose model is resolved; empty if it can be laid out.
std::vector<Problem> job_problems(const Job& job, bool even_shares = true);

/// Most gradient buckets on one pipeline stage.
inline constexpr double kMostBuckets = 4096;

/// Most micro-batches x stages of one replica: each is simulated by itself, at about 1 kB.
inline constexpr double kMostPasses = 1'000'000;

}  // namespace orrery
