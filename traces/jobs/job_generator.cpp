#include "traces/jobs/job_generator.hpp"

#include <algorithm>
#include <array>
#include <cmath>

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

/// Draws from a log-normal distribution.
double log_normal(Rng& rng, double mean, double sigma) {
  return mean * std::exp(sigma * rng.normal() - sigma * sigma / 2);
}

/// Generator of the jobs of one log, and of the gaps between them.
class Drawing {
 public:
  Drawing(const JobMix& mix, const JobDraw& draw)
      : mix_(mix), rng_(Rng(draw.seed).split_stream("jobs " + mix.name)) {
    const double most = std::min(draw.gpus, mix.most_gpus);
    sizes_ = static_cast<int>(std::log2(most)) + 1;
    ratio_ = ratio_of_sizes(std::min(mix.mean_gpus, most), sizes_);
    gap_sigma_ = std::sqrt(std::log(1 + mix.gap_variation * mix.gap_variation));
  }

  TraceJob job(std::uint32_t number) {
    TraceJob job;
    job.id = std::to_string(number);
    job.gpus = size();
    job.duration_s = run_time();
    const int user = zipf();
    job.user = fmt::format("user-{}", user);
    job.pool = fmt::format("vc-{}", user % kClusters + 1);
    job.name = fmt::format("{}-{}",
                           job.gpus >= 64  ? "pretrain"
                           : job.gpus >= 8 ? "train"
                                           : "eval",
                           rng_.below(3) + 1);
    job.requested_s = limit(job.duration_s);
    return job;
  }
  double gap() { return rng_.uniform() < mix_.same_second ? 0 : log_normal(rng_, 1, gap_sigma_); }

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
  /// Draws a run time; its mean depends on the kind of end.
  std::int64_t run_time() {
    const double which = rng_.uniform();
    const JobMix::Ending& ending =
        which < mix_.completed.share_of_jobs                                  ? mix_.completed
        : which < mix_.completed.share_of_jobs + mix_.cancelled.share_of_jobs ? mix_.cancelled
                                                                              : mix_.failed;
    const double mean = mix_.mean_run_s * ending.share_of_gpu_time / ending.share_of_jobs;
    const double drawn = log_normal(rng_, mean, kRunSigma);
    return std::max<std::int64_t>(1, std::llround(std::min(drawn, kLongestRun_s)));
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
  /// Draws a time limit: the smallest sufficient value of the list, or one of the two after it.
  std::int64_t limit(std::int64_t duration_s) {
    constexpr std::array<std::int64_t, 7> kMenu_h{1, 4, 12, 24, 72, 168, 720};
    std::size_t at = 0;
    while (at + 1 < kMenu_h.size() && kMenu_h[at] * 3600 < duration_s) ++at;
    at = std::min(at + rng_.below(3), kMenu_h.size() - 1);
    return kMenu_h[at] * 3600;
  }

  const JobMix& mix_;
  Rng rng_;
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
  std::vector<double> arrival;
  double now = 0, work = 0;
  for (std::uint32_t i = 0; i < draw.jobs; ++i) {
    jobs.push_back(drawing.job(i));
    work += static_cast<double>(jobs.back().gpus) * static_cast<double>(jobs.back().duration_s);
    if (i > 0) now += drawing.gap();
    arrival.push_back(now);
  }
  // Gaps are stretched so that the requested GPU time is the load.
  const double span_s = work / (draw.load * draw.gpus);
  const double stretch = now > 0 ? span_s / now : 0;
  for (std::size_t i = 0; i < jobs.size(); ++i)
    jobs[i].submit_s = std::llround(arrival[i] * stretch);
  return jobs;
}

}  // namespace orrery
