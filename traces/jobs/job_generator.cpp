#include "traces/jobs/job_generator.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/random.hpp"

namespace orrery {
namespace {

constexpr double kRunSigma = 1.6;  // standard deviation of the logarithm of run times
constexpr double kLongestRun_s = 30.0 * 86400;
constexpr int kUsers = 64, kClusters = 4;

const std::array<JobMix, 4>& mixes() {
  static const std::array<JobMix, 4> all{
      JobMix{"seren", 5.68, 1414, {.497, .212}, {.075, .664}, {.429, .124}, 14.7, .31, 1024},
      JobMix{"kalos", 26.8, 1260, {.541, .313}, {.062, .607}, {.397, .080}, 11.3, .32, 2048},
      JobMix{"philly", 1.93, 18006, {.604, .321}, {.090, .294}, {.305, .386}, 3, .05, 128},
      // Shares of GPU time are not published: all endings have the same mean run time.
      JobMix{"helios", 3.7, 6652, {.624, .624}, {.221, .221}, {.155, .155}, 3, .05, 2048}};
  return all;
}

/// Returns the ratio of the probabilities of a size and of half that size, at which the sizes 1, 2,
/// 4, ... have the given mean.
double ratio_of_sizes(double mean, int sizes) {
  double low = 0, high = 2;
  for (int i = 0; i < 100; ++i) {
    const double ratio = (low + high) / 2;
    double weight = 1, all = 0, sum = 0;
    for (int k = 0; k < sizes; ++k, weight *= ratio) {
      all += weight;
      sum += weight * std::exp2(k);
    }
    (sum / all < mean ? low : high) = ratio;
  }
  return low;
}

/// Run time of a job before it is rounded, and its limit.
struct DrawnRun {
  double run_s = 0;
  std::uint8_t limit = 0;  ///< number of limits to skip after the smallest sufficient one
};

/// Returns the value of a log-normal distribution at the value of a normal one.
double log_normal(double normal, double mean, double sigma) {
  return mean * std::exp(sigma * normal - sigma * sigma / 2);
}

std::int64_t whole_run(double run_s) {
  return std::max<std::int64_t>(1, std::llround(std::min(run_s, kLongestRun_s)));
}

/// Returns a time limit: the value of the list `after` places behind the smallest sufficient one.
std::int64_t limit(std::int64_t duration_s, std::size_t after) {
  constexpr std::array<std::int64_t, 7> kMenu_h{1, 4, 12, 24, 72, 168, 720};
  std::size_t at = 0;
  while (at + 1 < kMenu_h.size() && kMenu_h[at] * 3600 < duration_s) ++at;
  at = std::min(at + after, kMenu_h.size() - 1);
  return kMenu_h[at] * 3600;
}

/// Returns the factor by which run times have the mean, although the longest are cut off.
double stretch_to_mean(const std::vector<DrawnRun>& runs, double mean) {
  double low = 0, high = 1e6;
  for (int i = 0; i < 40; ++i) {
    const double factor = i == 0 ? 1 : (low + high) / 2;
    double sum = 0;
    for (const DrawnRun& each : runs) sum += static_cast<double>(whole_run(factor * each.run_s));
    (sum < mean * static_cast<double>(runs.size()) ? low : high) = factor;
  }
  return low;
}

/// Generator of the jobs of one log, and of the gaps between them.
class Drawing {
 public:
  Drawing(const JobMix& mix, const JobDraw& draw)
      : mix_(mix),
        rng_(Rng(draw.seed).split_stream("jobs " + mix.name)),
        groups_(Rng(draw.seed).split_stream("habits " + mix.name)),
        kind_rng_(groups_.split_stream("kinds")),
        own_part_(std::sqrt(1 - draw.habits)),
        common_part_(std::sqrt(draw.habits)) {
    const double most = std::min(draw.gpus, mix.most_gpus);
    sizes_ = static_cast<int>(std::log2(most)) + 1;
    ratio_ = ratio_of_sizes(std::min(mix.mean_gpus, most), sizes_);
    gap_sigma_ = std::sqrt(std::log(1 + mix.gap_variation * mix.gap_variation));
  }

  /// Returns a job without its times, and draws `run`.
  TraceJob job(std::uint32_t number, DrawnRun& run) {
    TraceJob job;
    job.id = std::to_string(number);
    job.gpus = size();
    const Chance own{rng_.uniform(), rng_.normal()};
    const int user = zipf();
    const auto variant = static_cast<int>(rng_.below(3)) + 1;
    job.user = fmt::format("user-{}", user);
    job.pool = fmt::format("vc-{}", user % kClusters + 1);
    job.name = fmt::format("{}-{}",
                           job.gpus >= 64  ? "pretrain"
                           : job.gpus >= 8 ? "train"
                                           : "eval",
                           variant);
    run.run_s = run_time(own, habit_of({user, variant, job.gpus}));
    run.limit = static_cast<std::uint8_t>(rng_.below(3));
    return job;
  }
  double gap() {
    if (rng_.uniform() < mix_.same_second) return 0;
    return log_normal(rng_.normal(), 1, gap_sigma_);
  }

 private:
  std::uint32_t size() {
    double all = 0, weight = 1;
    for (int k = 0; k < sizes_; ++k, weight *= ratio_) all += weight;
    double left = rng_.uniform() * all;
    weight = 1;
    for (int k = 0; k + 1 < sizes_; ++k, weight *= ratio_) {
      if (left < weight) return 1u << k;
      left -= weight;
    }
    return 1u << (sizes_ - 1);
  }
  /// Draws of one job, or of all jobs of one user, name and size.
  struct Chance {
    double end = 0;   ///< uniform in [0, 1): kind of end
    double time = 0;  ///< normal: run time among those of the kind
  };
  using Group = std::tuple<int, int, std::uint32_t>;  ///< user, variant of the name, GPUs

  /// Returns the draws of a group, which depend on the seed and the group only.
  const Chance& habit_of(const Group& group) {
    const auto [at, is_new] = habits_.try_emplace(group);
    if (is_new) {
      const auto& [user, variant, gpus] = group;
      Rng rng = groups_.split_stream(fmt::format("{} {} {}", user, variant, gpus));
      at->second.end = rng.uniform();
      at->second.time = rng.normal();
    }
    return at->second;
  }
  /// Returns the run time of a job; its mean depends on the kind of end. Two jobs of a group both
  /// have the group's kind with a probability of habits, so that each has it with the root.
  double run_time(const Chance& own, const Chance& common) {
    const double which = kind_rng_.uniform() < common_part_ ? common.end : own.end;
    const JobMix::Ending& ending =
        which < mix_.completed.share_of_jobs                                  ? mix_.completed
        : which < mix_.completed.share_of_jobs + mix_.cancelled.share_of_jobs ? mix_.cancelled
                                                                              : mix_.failed;
    const double mean = mix_.mean_run_s * ending.share_of_gpu_time / ending.share_of_jobs;
    return log_normal(own_part_ * own.time + common_part_ * common.time, mean, kRunSigma);
  }
  int zipf() {
    double all = 0;
    for (int i = 1; i <= kUsers; ++i) all += 1.0 / i;
    double left = rng_.uniform() * all;
    for (int i = 1; i < kUsers; ++i) {
      left -= 1.0 / i;
      if (left < 0) return i;
    }
    return kUsers;
  }

  const JobMix& mix_;
  Rng rng_;
  const Rng groups_;  ///< origin of the draws of all groups
  Rng kind_rng_;      ///< decides which jobs have the kind of end of their group
  std::map<Group, Chance> habits_;
  double own_part_ = 1, common_part_ = 0;  ///< weights of the two draws of a run time
  int sizes_ = 1;
  double ratio_ = 0, gap_sigma_ = 0;
};

}  // namespace

std::vector<std::string> job_mix_names() {
  std::vector<std::string> names;
  for (const JobMix& mix : mixes()) names.push_back(mix.name);
  return names;
}

const JobMix& job_mix(const std::string& name) {
  for (const JobMix& mix : mixes()) {
    if (mix.name == name) return mix;
  }
  throw Error(ErrorKind::usage, fmt::format("no statistics of a cluster '{}' are known{}", name,
                                            did_you_mean(name, job_mix_names())));
}

std::vector<TraceJob> draw_jobs(const JobMix& mix, const JobDraw& draw) {
  Drawing drawing(mix, draw);
  std::vector<TraceJob> jobs;
  std::vector<DrawnRun> runs;
  std::vector<double> arrival;
  double now = 0;
  for (std::uint32_t i = 0; i < draw.jobs; ++i) {
    jobs.push_back(drawing.job(i, runs.emplace_back()));
    if (i > 0) now += drawing.gap();
    arrival.push_back(now);
  }
  // Few groups have most of the jobs, so that the mean of one log would depend on their habits.
  const double longer = draw.habits > 0 ? stretch_to_mean(runs, mix.mean_run_s) : 1;
  double work = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].duration_s = whole_run(longer * runs[i].run_s);
    jobs[i].requested_s = limit(jobs[i].duration_s, runs[i].limit);
    work += static_cast<double>(jobs[i].gpus) * static_cast<double>(jobs[i].duration_s);
  }
  // Gaps are stretched so that the requested GPU time is the load.
  const double span_s = work / (draw.load * draw.gpus);
  const double stretch = now > 0 ? span_s / now : 0;
  for (std::size_t i = 0; i < jobs.size(); ++i)
    jobs[i].submit_s = std::llround(arrival[i] * stretch);
  return jobs;
}

}  // namespace orrery
