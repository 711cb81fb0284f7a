#include "policies/rebalancing/predictive_rebalance.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "policies/seam/byte_archive.hpp"

namespace orrery {
namespace {

/// Steps that every rank must have been measured for before the policy rests.
constexpr std::uint64_t kStepsBeforeRest = 4;
/// Standard deviations at which a slope is taken for real when it comes to resting.
constexpr double kRealSlope = 3;
/// The first step that a shift can reach is looked at on every tick and has little doubt left;
/// without this factor on the confidence, noise would be acted on.
constexpr double kNearFactor = 1.5;
/// A gain must also exceed the doubt: shares are whole numbers, so one replica or another is late
/// in any case, and noise selects it. A likely trend identifies the late replica: then half the
/// gain suffices.
constexpr double kTrendFactor = 0.5, kLikelySlope = 2;
/// Replicas whose log times differ by less are equally fast: the order in which a simulation adds
/// up must not choose between them, nor show in a reason.
constexpr double kEquallyFast = 1e-6;

double without_rounding(double value) { return std::round(value / kEquallyFast) * kEquallyFast; }

/// Doubt about a replica of which nothing is known: it is taken to be like the median.
constexpr double kUnknownDeviation = 0.1;
/// Number of ranks above which all samples are read only once a step; in between the slowest of
/// them are read, and all are read if one of those is a surprise.
constexpr std::size_t kRanksWatchedClosely = 384;
constexpr std::uint32_t kGlancedAt = 8;
/// Bytes of the saved state for each rank of a job, rounded up.
constexpr std::size_t kSavedBytesPerRank = 384;

/// The lower median of the known log times; nothing known: not a number.
double median_log_time(const std::vector<ReplicaForecast>& replicas) {
  std::vector<double> known;
  for (const ReplicaForecast& replica : replicas) {
    if (replica.known) known.push_back(replica.log_time);
  }
  if (known.empty()) return std::nan("");
  const auto middle = known.begin() + static_cast<std::ptrdiff_t>((known.size() - 1) / 2);
  std::nth_element(known.begin(), middle, known.end());
  return *middle;
}

/// Deviation of log(time of `latest` / balanced time), by the delta method: the balanced time
/// depends on each replica by its share of the total speed.
double lateness_deviation(const std::vector<ReplicaForecast>& replicas,
                          const std::vector<double>& times, std::size_t latest) {
  double rate = 0;
  for (const double time : times) rate += 1 / time;
  double variance = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const double weight = (i == latest ? 1 : 0) - 1 / (times[i] * rate);
    variance += std::pow(weight * replicas[i].deviation, 2);
  }
  return std::sqrt(variance);
}

std::size_t latest_replica(const ShareList& shares, const std::vector<double>& times, double fill) {
  std::size_t latest = 0;
  for (std::size_t i = 1; i < shares.size(); ++i) {
    if ((shares[i] + fill) * times[i] > (shares[latest] + fill) * times[latest]) latest = i;
  }
  return latest;
}

}  // namespace

PredictiveRebalance::PredictiveRebalance() { fill_defaults(parameters_); }

Needs PredictiveRebalance::needs() const {
  return {.actions = Kinds<Action>::of<Configure>(),
          .settings = Kinds<Setting>::of<Shares>(),
          .tick = parameters_.tick()};
}

void PredictiveRebalance::start(Context&, const Cluster&,
                                const google::protobuf::Message* parameters) {
  parameters_.Clear();
  if (parameters != nullptr) {
    ensure(parameters->GetDescriptor() == parameters_.GetDescriptor(),
           "a policy is started with parameters of its own type");
    parameters_.CopyFrom(*parameters);
  }
  fill_defaults(parameters_);
  plans_.clear();
}

Step PredictiveRebalance::horizon(Step step) const {
  return step + parameters_.lead_steps() +
         static_cast<Step>(std::llround(parameters_.horizon_steps()));
}

/// A running training job whose micro-batches can be shifted at all.
bool PredictiveRebalance::is_rebalanced(const JobInfo& job) {
  return job.phase == JobPhase::running && job.layout.data > 1 && job.spec.is_training() &&
         job.shares().size() == job.layout.data && job.lost.empty();
}

void PredictiveRebalance::observe(Context&, const Observation& seen, DecisionList& decisions) {
  watch_samples(seen);
  bool quiet = true;
  for (auto& [id, plan] : plans_) {
    quiet = plan.looked && decide_for_job(seen.jobs[id], plan, decisions) && quiet;
  }
  if (quiet) decisions.rest();
}

namespace {

template <class Kind>
bool any(const Observation& seen) {
  return std::any_of(seen.events.begin(), seen.events.end(),
                     [](const Event& event) { return std::holds_alternative<Kind>(event); });
}

}  // namespace

/// Reads the samples, if new ones may matter.
void PredictiveRebalance::read_samples(const Observation& seen, JobId id, Plan& plan) const {
  JobWatch& watch = plan.watch;
  const bool only_ticked = any<Tick>(seen) && seen.events.size() == 1;
  plan.looked = !only_ticked || watch.ranks() <= kRanksWatchedClosely ||
                watch.is_surprised_by(seen.samples.summary(id, kGlancedAt));
  if (!plan.looked) return;
  // Not at answers alone, which come at the instant of a call that has read the samples, and not
  // before the first step. A simulation that skips ahead tells of known steps with the next event,
  // whichever it is.
  const bool only_answers = std::ranges::all_of(
      seen.events, [](const Event& event) { return std::holds_alternative<Decided>(event); });
  if (any<Tick>(seen) || (!only_answers && seen.jobs[id].step > 0)) {
    // One after the other: the log has the reads in their order.
    const auto column = [&](SampleField field) { return seen.samples.column(field, id); };
    const auto ranks = seen.samples.rows(SampleTable::ranks, id);
    const auto done = column(SampleField::micro_batches_done);
    const auto times = column(SampleField::micro_batch_time);
    watch.add_ranks(*ranks, *done, *times, seen.now);
    const auto devices = seen.samples.rows(SampleTable::devices, id);
    const auto load = column(SampleField::utilization);
    const auto bandwidth = column(SampleField::memory_bandwidth);
    watch.add_devices(*devices, *load, *bandwidth, seen.now);
    const auto links = seen.samples.rows(SampleTable::links, id);
    watch.add_links(*links, *column(SampleField::latency), seen.now);
  }
  watch.learn_from_samples();
}

void PredictiveRebalance::watch_samples(const Observation& seen) {
  const std::size_t before = plans_.size();
  std::erase_if(plans_, [&seen](const auto& plan) { return !seen.jobs.find(plan.first); });
  for (const JobInfo& job : seen.jobs) {
    const auto found = plans_.find(job.spec.id);
    if (!is_rebalanced(job)) {
      if (found != plans_.end()) plans_.erase(found);
    } else if (found == plans_.end() || !found->second.watch.fits_job(job)) {
      plans_[job.spec.id] = Plan{.watch = JobWatch(job)};
    }
  }
  changed_ = plans_.size() != before;
  for (auto& [id, plan] : plans_) {
    plan.watch.follow_job(seen.jobs[id], seen.now);
    read_samples(seen, id, plan);
    changed_ = changed_ || plan.looked;
  }
}

PredictiveRebalance::Outlook PredictiveRebalance::look_ahead(const JobInfo& job, const Plan& plan,
                                                             Step target) const {
  Outlook outlook;
  outlook.target = target;
  std::vector<ReplicaForecast> replicas = plan.watch.forecast(target);
  for (ReplicaForecast& replica : replicas) {
    replica.log_time = without_rounding(replica.log_time);
  }
  const double typical = median_log_time(replicas);
  if (std::isnan(typical)) return outlook;
  outlook.complete = true;
  std::vector<double> times;
  times.reserve(replicas.size());
  for (ReplicaForecast& replica : replicas) {
    if (!replica.known) replica = {typical, 0, 0, false};
    times.push_back(std::exp(replica.log_time));
  }
  const double fill = job.layout.pipeline - 1.0;
  const std::size_t latest = latest_replica(job.shares(), times, fill);
  outlook.latest_rank = replicas[latest].rank;
  outlook.slowness = std::exp(replicas[latest].log_time - typical);
  outlook.makespan_now = makespan(job.shares(), times, fill);
  const double bound = balanced_time(job.micro_batches(), times, fill);
  outlook.lateness = std::log(outlook.makespan_now / bound);
  outlook.best = job.shares();
  outlook.makespan_best = outlook.makespan_now;
  if (1 - bound / outlook.makespan_now < parameters_.gain_threshold()) return outlook;
  outlook.best = best_shares(job.shares(), times, fill, most_micro_batches(job.spec, job.layout));
  outlook.makespan_best = makespan(outlook.best, times, fill);
  if (!is_worthwhile(job, outlook)) return outlook;
  plan.watch.add_deviations(target, replicas);
  for (ReplicaForecast& replica : replicas) {
    replica.deviation = replica.known ? without_rounding(replica.deviation) : kUnknownDeviation;
  }
  outlook.latest_deviation = replicas[latest].deviation;
  outlook.deviation = lateness_deviation(replicas, times, latest);
  return outlook;
}

bool PredictiveRebalance::is_worthwhile(const JobInfo& job, const Outlook& outlook) const {
  return outlook.best != job.shares() && outlook.gain() >= parameters_.gain_threshold();
}

bool PredictiveRebalance::is_certain(const Plan& plan, const Outlook& outlook,
                                     double confidence) const {
  if (outlook.lateness <= confidence * outlook.deviation) return false;
  if (plan.watch.knows_more_soon(outlook.latest_rank)) return false;
  const double gain = std::log(outlook.makespan_now / outlook.makespan_best);
  const double doubt = confidence * outlook.latest_deviation;
  if (gain > doubt) return true;
  return gain > kTrendFactor * doubt &&
         plan.watch.is_drifting(outlook.target, parameters_.gain_threshold(), kLikelySlope);
}

bool PredictiveRebalance::decide_for_job(const JobInfo& job, Plan& plan,
                                         DecisionList& decisions) const {
  const Step effective = job.step + parameters_.lead_steps();
  if (plan.shifted && effective < plan.shifted_at + std::max(parameters_.cooldown_steps(), 1u)) {
    return false;
  }
  if (job.spec.steps > 0 && effective >= job.spec.steps) return true;
  bool tempted = false;
  for (const Step target : {horizon(job.step), effective}) {
    const Outlook outlook = look_ahead(job, plan, target);
    if (!outlook.complete) return false;
    if (!is_worthwhile(job, outlook)) continue;
    tempted = true;
    const double factor = target == effective ? kNearFactor : 1;
    if (!is_certain(plan, outlook, factor * parameters_.confidence())) continue;
    Decision& decision =
        decisions.add(Configure{job.spec.id, Shares{outlook.best}}, reason(job, outlook));
    decision.at_step = effective;
    plan.shifted = true;
    plan.shifted_at = effective;
    return false;
  }
  return !tempted && plan.watch.has_measured(kStepsBeforeRest) &&
         !plan.watch.is_drifting(horizon(job.step), parameters_.gain_threshold(), kRealSlope);
}

std::string PredictiveRebalance::reason(const JobInfo& job, const Outlook& outlook) const {
  std::uint32_t moved = 0;
  for (std::size_t i = 0; i < outlook.best.size(); ++i) {
    moved += outlook.best[i] - std::min(outlook.best[i], job.shares()[i]);
  }
  return fmt::format(
      "rank {} is predicted to need {:.2f} x the median per micro-batch at step {}, its replica "
      "to finish {:.1f}% late (+-{:.1f}%): moving {} micro-batches cuts compute from {:.3g} s to "
      "{:.3g} s",
      outlook.latest_rank, outlook.slowness, outlook.target, 100 * std::expm1(outlook.lateness),
      100 * outlook.deviation, moved, outlook.makespan_now, outlook.makespan_best);
}

// ---- state as bytes -------------------------------------------------------------------------

void PredictiveRebalance::save(Archive& archive) const {
  archive.clear();
  std::size_t ranks = 0;
  for (const auto& [id, plan] : plans_) ranks += plan.watch.ranks();
  archive.reserve(ranks * kSavedBytesPerRank);
  ByteWriter write(archive);
  write(static_cast<std::uint64_t>(plans_.size()));
  for (const auto& [id, plan] : plans_) {
    write(id), write(plan.shifted_at), write(plan.shifted);
    write(static_cast<std::uint64_t>(plan.watch.ranks()));
    JobWatch::fields(plan.watch, write);
  }
}

void PredictiveRebalance::load(const Archive& archive) {
  ByteReader read(archive);
  std::map<JobId, Plan> plans;
  const std::size_t count = read.size();
  for (std::size_t i = 0; i < count; ++i) {
    JobId id;
    read(id);
    Plan& plan = plans[id];
    if (const auto known = plans_.find(id); known != plans_.end()) {
      plan = std::move(known->second);  // restore_from() then reuses its memory
    }
    read(plan.shifted_at), read(plan.shifted);
    const std::size_t ranks = read.size();
    plan.watch.restore_from(read, ranks);
  }
  ensure(read.is_at_end(), "a saved policy state has nothing behind it");
  plans_ = std::move(plans);
}

}  // namespace orrery
