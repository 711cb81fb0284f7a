#include "sim/forecast/duration_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "core/random.hpp"

namespace orrery::sim {
namespace {

TEST(DurationDistribution, OnlyLongerDurationsAreLeftForAJobThatRuns) {
  const DurationDistribution of({{60, 1}, {10, 1}, {20, 1}}, 15, 0);
  EXPECT_EQ(of.quantile(0.25), 20);
  EXPECT_EQ(of.quantile(0.75), 60);
}

TEST(DurationDistribution, BeyondAllKnownDurationsTheRestGrowsWithTheElapsedTime) {
  const DurationDistribution of({{10, 1}}, 100, 0);
  EXPECT_EQ(of.quantile(0), 100);
  EXPECT_EQ(of.quantile(0.5), 200);
  EXPECT_EQ(DurationDistribution({{10, 1}}, 100, 150).quantile(0.5), 150);
}

TEST(DurationModel, OneHourBeforeAnyEnd) {
  EXPECT_EQ(DurationModel().medians({.gpus = 4}).model_s, 3600);
  EXPECT_GE(DurationModel().of({.gpus = 4}, 7200).quantile(0.5), 14400);
}

/// Mean error of model and baseline on jobs whose duration depends on the user only.
std::pair<double, double> errors_by_user(bool names_users, std::uint64_t seed) {
  DurationModel model;
  Rng rng(seed);
  double error = 0, by_size = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t user = rng.below(8);
    const double duration_s =
        60 * std::pow(4, static_cast<double>(user)) * std::exp(rng.normal() / 4);
    JobColumns job{.gpus = 1u << rng.below(3)};
    if (names_users) job.user = "u" + std::to_string(user);
    const DurationModel::Medians known = model.medians(job);
    if (i >= 1000) {
      error += std::abs(std::log(known.model_s / duration_s));
      by_size += std::abs(std::log(known.by_size_s / duration_s));
    }
    model.record_end(job, duration_s);
  }
  return {error / 1000, by_size / 1000};
}

TEST(DurationModel, LearnsThatTheUserTellsTheDuration) {
  const auto [error, by_size] = errors_by_user(true, 1);
  EXPECT_LT(error, 0.3);
  EXPECT_GT(by_size, 2);
}

/// Returns the mean error of the second 1000 jobs, whose duration depends on a number in the name.
double error_by_number(bool repeats) {
  DurationModel model;
  Rng rng(3);
  double error = 0;
  for (int i = 0; i < 40'000; ++i) {
    const std::uint64_t number = rng.below(8);
    const double duration_s = 60 * std::pow(4, static_cast<double>(number));
    const std::string run = repeats ? "" : "-" + std::to_string(i);
    const JobColumns job{.gpus = 1, .user = "u", .name = "eval-" + std::to_string(number) + run};
    if (i >= 39'000) error += std::abs(std::log(model.medians(job).model_s / duration_s));
    model.record_end(job, duration_s);
  }
  return error / 1000;
}

TEST(DurationModel, LearnsFromNumbersInNamesThatComeAgain) {
  EXPECT_LT(error_by_number(true), 0.1);
  EXPECT_GT(error_by_number(false), 2);  // each name is new, and old ones are forgotten
}

/// Returns the mean errors of the newest 1,000 of 2,000 jobs: of a name of one user, and of the
/// same jobs with limits of 1.2 to 5 times their durations.
std::pair<double, double> errors_by_limit() {
  DurationModel plain, limited;
  Rng rng(5);
  std::pair<double, double> error;
  for (int i = 0; i < 2000; ++i) {
    const double duration_s = 1000 * std::exp(rng.normal() / 4);
    JobColumns job{.gpus = 1u << rng.below(3), .user = "u", .name = "train"};
    const auto off = [&](const DurationModel& model) {
      return std::abs(std::log(model.medians(job).model_s / duration_s));
    };
    if (i >= 1000) error.first += off(plain) / 1000;
    plain.record_end(job, duration_s);
    job.limit_s = static_cast<std::int64_t>(duration_s * (1.2 + 3.8 * rng.uniform()));
    if (i >= 1000) error.second += off(limited) / 1000;
    limited.record_end(job, duration_s);
  }
  return error;
}

TEST(DurationModel, AMoreThanUsualLimitTellsALongerJob) {
  const auto [plain, limited] = errors_by_limit();
  EXPECT_NEAR(plain, 0.2, 0.02);
  EXPECT_LT(limited, 0.88 * plain);
}

TEST(DurationModel, DurationsOfOtherLimitsAreScaledForJobsThatRunAsWell) {
  DurationModel model;
  for (int i = 1; i <= 600; ++i) {
    model.record_end({.gpus = 1, .user = "u", .limit_s = 100 * (i % 6 + 1)}, 50 * (i % 6 + 1));
  }
  const JobColumns longer{.gpus = 1, .user = "u", .limit_s = 1200};
  EXPECT_NEAR(model.of(longer, 0).quantile(0.5), 600, 90);
  EXPECT_GT(model.of(longer, 500).quantile(0), 500);
  EXPECT_LT(model.of(longer, 500).quantile(0.1), 700);
}

/// Every job has a size of its own.
TEST(DurationModel, LearnsTheNamesOfAUserAcrossSizes) {
  DurationModel model;
  double error = 0;
  for (std::uint32_t i = 0; i < 200; ++i) {
    const JobColumns job{.gpus = i + 1, .user = "u", .name = i % 2 == 0 ? "long" : "short"};
    const double duration_s = i % 2 == 0 ? 10'000 : 100;
    if (i >= 100) error += std::abs(std::log(model.medians(job).model_s / duration_s)) / 100;
    model.record_end(job, duration_s);
  }
  for (const char* user : {"v", "w"}) {  // another user's jobs of these names differ
    for (int i = 0; i < 40; ++i) model.record_end({.gpus = 1, .user = user, .name = "long"}, 10);
  }
  EXPECT_LT(error, 0.1);
  const JobColumns job{.gpus = 777, .user = "u", .name = "long"};
  EXPECT_NEAR(model.medians(job).model_s, 10'000, 1);
}

TEST(DurationModel, IsTheMedianOfTheSizeWhereNoColumnTellsMore) {
  const auto [error, by_size] = errors_by_user(false, 2);
  EXPECT_LE(error, by_size * 1.01);
}

TEST(DurationModel, DurationsStayBelowLimitsThatHold) {
  DurationModel model;
  for (int i = 0; i < 200; ++i) model.record_end({.gpus = 1, .limit_s = 1000}, 900);
  EXPECT_EQ(model.of({.gpus = 1, .limit_s = 300}, 0).quantile(0.9), 300);
  for (int i = 0; i < 20; ++i) model.record_end({.gpus = 1, .limit_s = 100}, 900);
  EXPECT_EQ(model.of({.gpus = 1, .limit_s = 300}, 0).quantile(0.9), 900);
}

/// Nanoseconds of 64 bits hold 9.2e9 s.
TEST(DurationModel, DurationsCanBeNanosecondsAfterErrorsOfManyOrdersOfMagnitude) {
  DurationModel model;
  for (int i = 0; i < 40; ++i) model.record_end({.gpus = 1}, i % 2 == 0 ? 2 : 1e7);
  const DurationDistribution of = model.of({.gpus = 1}, 0);
  EXPECT_LE(of.quantile(0.9999), 1e9);
  EXPECT_GE(of.quantile(0), 1);
}

TEST(DurationModel, BeforeAnyEndADurationIsAnywhereBelowTheLimit) {
  const DurationDistribution of = DurationModel().of({.gpus = 1, .limit_s = 600}, 0);
  EXPECT_LT(of.quantile(0.1), 100);
  EXPECT_EQ(of.quantile(0.5), 300);
  EXPECT_EQ(of.quantile(0.9), 600);
}

TEST(DurationModel, OneDurationDoesNotFixTheNextOne) {
  DurationModel model;
  model.record_end({.gpus = 1}, 100);
  const DurationDistribution of = model.of({.gpus = 1}, 0);
  EXPECT_LT(of.quantile(0.1), 50);
  EXPECT_EQ(of.quantile(0.5), 100);
  EXPECT_GT(of.quantile(0.9), 200);
}

TEST(DurationModel, JobsThatRunLastLongerThanThoseThatHaveEnded) {
  DurationModel model;
  for (int i = 0; i < 10; ++i) model.record_end({.gpus = 1}, 100);
  EXPECT_EQ(model.of({.gpus = 1}, 0).quantile(0.7), 100);
  model.set_running({10, {{.gpus = 1}, 500}});
  EXPECT_EQ(model.of({.gpus = 1}, 0).quantile(0.4), 100);
  EXPECT_GT(model.of({.gpus = 1}, 0).quantile(0.7), 500);
  EXPECT_EQ(model.medians({.gpus = 1}).model_s, 100);
}

}  // namespace
}  // namespace orrery::sim
