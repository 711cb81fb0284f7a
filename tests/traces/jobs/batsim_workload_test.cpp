#include "traces/jobs/batsim_workload.hpp"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/random.hpp"
#include "traces/jobs/job_log.hpp"

namespace orrery {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kSample = ORRERY_SOURCE_DIR "/tests/traces/samples/batsim.json";

std::string in_short(const TraceJob& job) {
  return job.id + " " + std::to_string(job.submit_s) + "+" + std::to_string(job.duration_s) + "/" +
         std::to_string(job.requested_s) + " x" + std::to_string(job.gpus);
}

/// Returns the jobs of a log with the parts that a workload has.
std::vector<std::string> in_full(const std::vector<TraceJob>& jobs) {
  std::vector<std::string> out;
  for (const TraceJob& job : jobs) {
    out.push_back(in_short(job) + " " + job.user.str() + " " + job.pool.str() + " " +
                  job.name.str() + " " + std::to_string(job.priority));
  }
  return out;
}

TEST(BatsimWorkload, ADelayHasAnotherNameInBatsim5) {
  const JobLog log = parse_job_log(
      "w.json", R"({"nb_res": 4, "jobs": [{"id": 1, "subtime": 5, "res": 2, "profile": "d"}],
                    "profiles": {"d": {"type": "DelayProfile", "delay": 20.20}}})");
  ASSERT_EQ(log.jobs.size(), 1u);
  EXPECT_EQ(in_short(log.jobs[0]), "1 0+20/0 x2");
}

TEST(BatsimWorkload, DelaysAreDurationsUpToTheWalltime) {
  const JobLog log = load_job_log(kSample);
  EXPECT_EQ(log.quality.format(), "batsim");
  ASSERT_EQ(log.jobs.size(), 3u);
  EXPECT_EQ(in_short(log.jobs[0]), "a 0+60/120 x4");
  EXPECT_EQ(in_short(log.jobs[1]), "2 2+2/0 x1");
  EXPECT_EQ(in_short(log.jobs[2]), "3 3+600/600 x16");
  EXPECT_EQ(log.jobs[2].user, "ann");
  EXPECT_EQ(log.jobs[2].line, 7);
  EXPECT_EQ(log.quality.passed_over(), 1u) << "a job without resources";
  ASSERT_EQ(log.quality.first_rejected_size(), 2);
  EXPECT_EQ(log.quality.first_rejected(0).line(), 9u);
  EXPECT_EQ(log.quality.first_rejected(1).reason(), "there is no profile 'day'");
}

TEST(BatsimWorkload, AProfileThatIsNoDelayIsRefusedByItsTypeWithTheRemedy) {
  const std::string text =
      "{\"jobs\": [\n{\"id\": 7, \"subtime\": 0, \"res\": 2, \"profile\": \"p\"}],\n\"profiles\": "
      "{\"p\": {\"type\": \"parallel_homogeneous\", \"cpu\": 1e6, \"com\": 0}}, \"nb_res\": 4}";
  try {
    parse_job_log("w.json", text);
    FAIL() << "expected a refusal";
  } catch (const Error& error) {
    ASSERT_TRUE(error.source_place());
    EXPECT_EQ(error.source_place()->line, 2);
    EXPECT_THAT(error.message(), HasSubstr("job '7'"));
    EXPECT_THAT(error.message(), HasSubstr("'p' of the type parallel_homogeneous"));
    EXPECT_THAT(error.message(), HasSubstr("execution_time"));
  }
}

/// Returns `count` jobs of random times and sizes, sorted by submission.
std::vector<TraceJob> random_jobs(Rng& rng, std::size_t count) {
  std::vector<TraceJob> jobs;
  std::int64_t now = 0;
  for (std::size_t i = 0; i < count; ++i) {
    TraceJob job;
    job.id = "job \"" + std::to_string(i) + "\"";
    job.submit_s = now;
    job.gpus = 1 + static_cast<std::uint32_t>(rng.below(64));
    job.duration_s = static_cast<std::int64_t>(rng.below(100));
    if (rng.below(2) == 0) job.requested_s = job.duration_s + 1;
    if (rng.below(2) == 0) job.user = "u\\" + std::to_string(rng.below(3));
    if (rng.below(2) == 0) job.pool = "vc";
    if (rng.below(2) == 0) job.name = "train\n";
    job.priority = static_cast<std::int32_t>(rng.below(5)) - 2;
    now += static_cast<std::int64_t>(rng.below(3)) * 30;
    jobs.push_back(std::move(job));
  }
  return jobs;
}

TEST(BatsimWorkload, WrittenJobsAreReadAgain) {
  Rng rng(7);
  for (int round = 0; round < 20; ++round) {
    const std::vector<TraceJob> jobs = random_jobs(rng, 1 + rng.below(40));
    const BatsimWorkload written = write_batsim_workload(jobs, 64);
    EXPECT_THAT(written.left_out, IsEmpty());
    const JobLog log = parse_job_log("w.json", written.text, {.strict = true});
    EXPECT_EQ(in_full(log.jobs), in_full(jobs)) << written.text;
  }
}

TEST(BatsimWorkload, JobsAreNumberedAndEqualDelaysShareAProfile) {
  TraceJob job;
  job.id = "x";
  job.gpus = 2;
  job.duration_s = 5;
  const std::string text = write_batsim_workload({job, job}, 8).text;
  EXPECT_EQ(text, R"({
"nb_res": 8,
"jobs": [
{"id": 0, "subtime": 0, "res": 2, "profile": "delay5", "job_id": "x"},
{"id": 1, "subtime": 0, "res": 2, "profile": "delay5", "job_id": "x"}
],
"profiles": {
"delay5": {"type": "delay", "delay": 5}
}
}
)");
}

TEST(BatsimWorkload, PartsThatBatsimCannotHaveAreNamed) {
  TraceJob job;
  job.id = "x";
  job.gpus = 1;
  job.duration_s = 50;
  job.requested_s = 40;
  job.recorded_start_s = 3;
  TraceJob next = job;
  next.id = "y";
  next.after = "x";
  next.requested_s = 50;
  EXPECT_THAT(write_batsim_workload({job, next}, 1).left_out,
              ElementsAre("the jobs before them (after) of 1 jobs", "the recorded start of 2 jobs",
                          "the time beyond the walltime (requested_s), at which Batsim ends a job, "
                          "of 1 jobs"));
}

}  // namespace
}  // namespace orrery
