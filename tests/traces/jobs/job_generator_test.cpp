#include "traces/jobs/job_generator.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "traces/jobs/job_log.hpp"

namespace orrery {
namespace {

TEST(JobGenerator, MeansAreThePublishedOnes) {
  for (const std::string& name : job_mix_names()) {
    const JobMix& mix = job_mix(name);
    const std::vector<TraceJob> jobs =
        draw_jobs(mix, {.jobs = 200'000, .gpus = 4096, .load = 0.9, .seed = 3});
    double gpus = 0, run = 0, work = 0;
    for (const TraceJob& job : jobs) {
      gpus += job.gpus;
      run += double(job.duration_s);
      work += double(job.gpus) * double(job.duration_s);
      EXPECT_GE(job.requested_s, job.duration_s);
    }
    const double count = double(jobs.size());
    EXPECT_NEAR(gpus / count / mix.mean_gpus, 1, 0.05) << name;
    EXPECT_NEAR(run / count / mix.mean_run_s, 1, 0.08) << name;
    const double span = double(jobs.back().submit_s - jobs.front().submit_s);
    EXPECT_NEAR(work / (4096 * span), 0.9, 0.001) << name;
  }
}

TEST(JobGenerator, HabitsKeepTheMeans) {
  for (const std::string& name : job_mix_names()) {
    const JobMix& mix = job_mix(name);
    for (const std::uint64_t seed : {1, 2, 3}) {
      JobDraw draw{.jobs = 100'000, .gpus = 4096, .load = 0.9, .seed = seed};
      const std::vector<TraceJob> before = draw_jobs(mix, draw);
      draw.habits = 0.8;
      const std::vector<TraceJob> jobs = draw_jobs(mix, draw);
      double run = 0;
      std::size_t other = 0;
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        run += double(jobs[i].duration_s);
        other += jobs[i].gpus != before[i].gpus || !(jobs[i].user == before[i].user) ||
                         !(jobs[i].name == before[i].name) ||
                         jobs[i].requested_s < jobs[i].duration_s
                     ? 1
                     : 0;
      }
      EXPECT_NEAR(run / 100'000 / mix.mean_run_s, 1, 0.03) << name << ", seed " << seed;
      EXPECT_EQ(other, 0u) << "sizes, users and names are those without habits";
    }
  }
}

/// Returns the share of the variance of the logarithms of run times in the second half of a log
/// that the means of each user, name and size in the first half explain.
double predictable_share(const std::vector<TraceJob>& jobs) {
  struct Group {
    double sum = 0, count = 0;
  };
  std::map<std::string, Group> groups;
  double error = 0, sum = 0, squares = 0, count = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const double log_run = std::log(double(jobs[i].duration_s));
    Group& group = groups[jobs[i].user.str() + jobs[i].name.str() + std::to_string(jobs[i].gpus)];
    if (i < jobs.size() / 2) {
      group.sum += log_run;
      group.count += 1;
    } else if (group.count >= 50) {
      const double off = log_run - group.sum / group.count;
      error += off * off;
      sum += log_run;
      squares += log_run * log_run;
      count += 1;
    }
  }
  return 1 - error / (squares - sum * sum / count);
}

TEST(JobGenerator, TheFirstHalfOfALogTellsTheShareOfHabitsInTheSecond) {
  for (const double habits : {0.0, 0.3, 0.8}) {
    double share = 0;
    for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6, 7, 8}) {
      share += predictable_share(draw_jobs(job_mix("seren"), {.jobs = 100'000,
                                                              .gpus = 1024,
                                                              .load = 0.8,
                                                              .seed = seed,
                                                              .habits = habits})) /
               8;
    }
    EXPECT_NEAR(share, habits, 0.05);
  }
}

TEST(JobGenerator, SerenArrivesInBursts) {
  const std::vector<TraceJob> jobs =
      draw_jobs(job_mix("seren"), {.jobs = 300'000, .gpus = 2288, .load = 0.5, .seed = 1});
  double sum = 0, squares = 0;
  std::size_t together = 0;
  for (std::size_t i = 1; i < jobs.size(); ++i) {
    const double gap = double(jobs[i].submit_s - jobs[i - 1].submit_s);
    sum += gap;
    squares += gap * gap;
    together += gap == 0 ? 1 : 0;
  }
  const double count = double(jobs.size() - 1), mean = sum / count;
  EXPECT_GT(std::sqrt(squares / count - mean * mean) / mean, 5) << "a Poisson process has 1";
  EXPECT_GT(double(together) / count, 0.31);
}

TEST(JobGenerator, EqualSeedsGiveEqualLogsThatAreRead) {
  const auto text = [](std::uint64_t seed) {
    return job_trace_csv(
        draw_jobs(job_mix("philly"), {.jobs = 500, .gpus = 64, .load = 0.8, .seed = seed}));
  };
  EXPECT_EQ(text(1), text(1));
  EXPECT_NE(text(1), text(2));
  const JobLog log = parse_job_log("drawn.csv", text(1));
  EXPECT_EQ(log.jobs.size(), 500u);
  for (const TraceJob& job : log.jobs) EXPECT_LE(job.gpus, 64u);
  EXPECT_THROW(job_mix("serene"), Error);
}

}  // namespace
}  // namespace orrery
