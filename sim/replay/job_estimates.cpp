#include "sim/replay/job_estimates.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::sim {
namespace {

constexpr Nanos kFirstGuess = 3600 * kNanosPerSecond;
constexpr double kLongest_s = 100.0 * 365 * 24 * 3600;  // limit of durations in job logs

/// Returns the name without digits: users number the repetitions of a job.
std::string without_digits(const std::string& name) {
  std::string out;
  std::copy_if(name.begin(), name.end(), std::back_inserter(out),
               [](char c) { return c < '0' || c > '9'; });
  return out;
}

}  // namespace

EstimateKind estimate_kind(const std::string& name) {
  if (const std::optional<EstimateKind> kind = find_named<EstimateKind>(name)) return *kind;
  throw Error(ErrorKind::bad_input,
              fmt::format("estimates: expected recorded, requested, learned or disturbed, found "
                          "'{}'{}",
                          name, did_you_mean(name, all_names<EstimateKind>())));
}

JobEstimates::JobEstimates(EstimateChoice choice)
    : choice_(choice),
      learns_(choice_.kind == EstimateKind::learned || choice_.kind == EstimateKind::requested),
      rng_(Rng(choice_.seed).split_stream("estimates")) {}

/// The first letter separates the kinds, whose texts could be equal otherwise. Jobs of unknown
/// users, or of unknown virtual clusters, have neither in common.
std::vector<std::string> JobEstimates::kinds_of(const TraceJob& job) {
  const std::string size = fmt::format("{}", job.gpu_count());
  std::vector<std::string> kinds;
  if (const std::string& user = job.user; !user.empty()) {
    kinds.push_back("n" + user + "\n" + size + "\n" + without_digits(job.name));
    kinds.push_back("u" + user + "\n" + size);
  }
  if (!job.pool.empty()) kinds.push_back("v" + job.pool.str() + "\n" + size);
  kinds.push_back("s" + size);
  kinds.emplace_back("a");
  return kinds;
}

Nanos JobEstimates::learned_estimate(const TraceJob& job) const {
  for (const std::string& kind : kinds_of(job)) {
    const auto last = last_.find(kind);
    if (last == last_.end()) continue;
    const Last& of = last->second;
    return std::max(kNanosPerSecond, of.seen > 1 ? (of.newest + of.before) / 2 : of.newest);
  }
  return kFirstGuess;
}

Nanos JobEstimates::disturbed(const TraceJob& job) const {
  const double factor = std::exp(choice_.error * rng_.split_stream(job.id).normal());
  const double seconds = std::round(static_cast<double>(job.duration_s) * factor);
  return static_cast<Nanos>(std::min(std::max(1.0, seconds), kLongest_s)) * kNanosPerSecond;
}

Nanos JobEstimates::at_submission(const TraceJob& job) const {
  if (choice_.kind == EstimateKind::disturbed) return disturbed(job);
  if (are_recorded_durations()) return job.duration_s * kNanosPerSecond;
  const bool asked = choice_.kind == EstimateKind::requested && job.requested_s > 0;
  return asked ? job.requested_s * kNanosPerSecond : learned_estimate(job);
}

void JobEstimates::record_end(const TraceJob& job, Nanos ran) {
  if (!learns_) return;
  for (const std::string& kind : kinds_of(job)) {
    Last& last = last_[kind];
    last = {ran, last.newest, last.seen + 1};
  }
}

}  // namespace orrery::sim
