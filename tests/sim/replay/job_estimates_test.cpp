#include "sim/replay/job_estimates.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery::sim {
namespace {

constexpr Nanos seconds(std::int64_t count) { return count * kNanosPerSecond; }

TraceJob job_of(const std::string& user, const std::string& name, std::uint32_t gpus,
                std::int64_t duration_s, std::int64_t requested_s = 0) {
  TraceJob job{.id = user + name, .gpus = gpus, .duration_s = duration_s, .pool = "vc"};
  job.user = user;
  job.name = name;
  job.requested_s = requested_s;
  return job;
}

TEST(JobEstimates, LearnedFromTheMostAlikeThatHaveEnded) {
  JobEstimates estimates({.kind = EstimateKind::learned});
  EXPECT_EQ(estimates.at_submission(job_of("ann", "train-1", 8, 5)), seconds(3600));
  estimates.record_end(job_of("ann", "train-1", 8, 0), seconds(100));
  EXPECT_EQ(estimates.at_submission(job_of("ann", "train-2", 8, 5)), seconds(100));
  estimates.record_end(job_of("ann", "train-2", 8, 0), seconds(300));
  EXPECT_EQ(estimates.at_submission(job_of("ann", "train-3", 8, 5)), seconds(200))
      << "the mean of the last two";
  estimates.record_end(job_of("bob", "eval", 8, 0), seconds(10));
  EXPECT_EQ(estimates.at_submission(job_of("ann", "train-4", 8, 5)), seconds(200));
  EXPECT_EQ(estimates.at_submission(job_of("ann", "other", 8, 5)), seconds(200)) << "her others";
  EXPECT_EQ(estimates.at_submission(job_of("cat", "new", 8, 5)), seconds(155)) << "her cluster's";
  EXPECT_EQ(estimates.at_submission(job_of("cat", "new", 1, 5)), seconds(155)) << "all";
}

TEST(JobEstimates, UnknownUsersAreNotOneUser) {
  JobEstimates estimates({.kind = EstimateKind::learned});
  TraceJob brief = job_of("", "train", 8, 0), lengthy = brief;
  lengthy.pool = "long";
  for (int i = 0; i < 2; ++i) {
    estimates.record_end(brief, seconds(100));
    estimates.record_end(lengthy, seconds(10000));
  }
  EXPECT_EQ(estimates.at_submission(brief), seconds(100)) << "by the virtual cluster";
  EXPECT_EQ(estimates.at_submission(lengthy), seconds(10000));
  lengthy.pool = {};
  EXPECT_EQ(estimates.at_submission(lengthy), seconds(5050)) << "by the size";
}

TEST(JobEstimates, WhatWasAskedForAndWithoutThatWhatWasLearned) {
  JobEstimates estimates({.kind = EstimateKind::requested});
  estimates.record_end(job_of("ann", "a", 1, 0), seconds(50));
  EXPECT_EQ(estimates.at_submission(job_of("ann", "a", 1, 5, 900)), seconds(900));
  EXPECT_EQ(estimates.at_submission(job_of("ann", "a", 1, 5)), seconds(50));
}

TEST(JobEstimates, DisturbedByTheStatedErrorAndTheSeed) {
  const JobEstimates one({.kind = EstimateKind::disturbed, .error = 0.5, .seed = 1});
  const JobEstimates same({.kind = EstimateKind::disturbed, .error = 0.5, .seed = 1});
  const JobEstimates other({.kind = EstimateKind::disturbed, .error = 0.5, .seed = 2});
  double sum = 0, squares = 0;
  int equal = 0;
  constexpr int kJobs = 4000;
  for (int i = 0; i < kJobs; ++i) {
    const TraceJob job = job_of("u", std::to_string(i), 1, 100000);
    const Nanos told = one.at_submission(job);
    EXPECT_EQ(told, same.at_submission(job));
    equal += told == other.at_submission(job) ? 1 : 0;
    const double log = std::log(to_seconds(told) / 100000);
    sum += log;
    squares += log * log;
  }
  EXPECT_NEAR(sum / kJobs, 0, 0.03);
  EXPECT_NEAR(std::sqrt(squares / kJobs), 0.5, 0.03);
  EXPECT_LT(equal, 10);
}

TEST(JobEstimates, TheTruthOnlyWhereItIsAskedFor) {
  const TraceJob job = job_of("u", "n", 1, 77);
  EXPECT_EQ(JobEstimates({}).at_submission(job), seconds(77));
  EXPECT_THROW(estimate_kind("guessed"), Error);
}

}  // namespace
}  // namespace orrery::sim
