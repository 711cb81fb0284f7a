#include "policies/compression/memory_aware.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "policies/compression/exchange_time.hpp"
#include "policies/seam/byte_archive.hpp"

namespace orrery {
namespace {

/// Weight of the newest sample in an average, and number of samples before a decision.
constexpr double kNewest = 0.3;
constexpr std::uint64_t kEnough = 3;
/// Fraction of the gain threshold below which the current code is replaced by a milder code.
constexpr double kHysteresis = 0.5;
/// Change of an average for which a promise to rest still holds: a number of mean deviations and a
/// fraction of the average. After k equal samples behind a jump the average is off by at most
/// (1 - kNewest) / (kNewest k) mean deviations, 2.33 behind the first one.
constexpr double kPromised = 2.5, kRounding = 0.01;
/// Relative difference of two durations that counts as none: an exchange that something else
/// bounds takes as long in every code.
constexpr double kEqual = 1e-6;

bool concerns(const JobInfo& job) {
  return job.phase == JobPhase::running && job.layout.data > 1 && job.spec.is_training() &&
         job.lost.empty();
}

CodecRule in_force(const JobInfo& job) { return rule_for(job.now.get<CodecRules>(), kMatrices); }

/// Returns true if the policy reads the samples of the job at this call: once a step, once a tick
/// and at a start, with which a folded simulation shows the steps before it; events of other kinds
/// cause more calls.
bool news_of(const JobInfo& job, const Observation& seen) {
  return std::any_of(seen.events.begin(), seen.events.end(), [&job](const Event& event) {
    const auto* steps = std::get_if<StepsDone>(&event);
    const auto* start = std::get_if<JobStarted>(&event);
    if (start != nullptr && start->job == job.spec.id) return true;
    return std::holds_alternative<Tick>(event) || (steps != nullptr && steps->job == job.spec.id);
  });
}

}  // namespace

MemoryAware::MemoryAware() { fill_defaults(parameters_); }

Needs MemoryAware::needs() const {
  return {.actions = Kinds<Action>::of<Configure>(), .settings = Kinds<Setting>::of<CodecRules>()};
}

void MemoryAware::start(Context&, const Cluster& cluster,
                        const google::protobuf::Message* parameters) {
  parameters_.Clear();
  if (parameters != nullptr) {
    ensure(parameters->GetDescriptor() == parameters_.GetDescriptor(),
           "a policy is started with parameters of its own type");
    parameters_.CopyFrom(*parameters);
  }
  fill_defaults(parameters_);
  memory_ = cluster.gpu_model().memory.value;
  memory_bandwidth_ = cluster.gpu_model().memory_bandwidth.value;
  watches_.clear();
}

void MemoryAware::observe(Context&, const Observation& seen, DecisionList& decisions) {
  bool quiet = true;
  for (const JobInfo& job : seen.jobs) {
    if (!concerns(job)) {
      watches_.erase(job.spec.id);
      continue;
    }
    Watch& watch = watches_[job.spec.id];
    if (news_of(job, seen)) record_samples(seen, job, watch);
    quiet = decide_for_job(job, watch, decisions) && quiet;
  }
  if (quiet) decisions.rest();
}

// ---- measurements -------------------------------------------------------------------------

void MemoryAware::Average::add(double sample) {
  if (samples > 0) deviation += kNewest * (std::abs(sample - value) - deviation);
  value = samples == 0 ? sample : value + kNewest * (sample - value);
  ++samples;
}

double MemoryAware::Average::doubt() const {
  return std::min(kPromised * deviation + kRounding * value, 0.9 * value);
}

void MemoryAware::record_samples(const Observation& seen, const JobInfo& job, Watch& watch) const {
  see_links(seen, job, watch);
  see_collectives(seen, job, watch);
  std::vector<double> variances;
  for (const RankSample& rank : seen.samples.ranks(job.spec.id)) {
    if (rank.gradient_variance.is_known()) variances.push_back(rank.gradient_variance.value);
  }
  if (!variances.empty()) {
    const auto middle = variances.begin() + static_cast<std::ptrdiff_t>(variances.size() / 2);
    std::nth_element(variances.begin(), middle, variances.end());
    watch.variance.add(*middle);
  }
  double fullest = 0;
  for (const DeviceSample& device : seen.samples.devices(job.spec.id)) {
    if (device.memory_used.is_known()) fullest = std::max(fullest, device.memory_used.value);
  }
  if (fullest > 0) watch.memory.add(fullest);
}

void MemoryAware::see_collectives(const Observation& seen, const JobInfo& job,
                                  Watch& watch) const {
  for (const CollectiveSample& sample : seen.samples.collectives(job.spec.id)) {
    const bool sums = sample.kind == CollectiveKind::all_reduce && sample.ranks > 1 &&
                      sample.bytes > 0 && sample.exposed > 0;
    if (!sums || sample.step < watch.heard_to) continue;
    watch.heard_to = sample.step + 1;
    if (watch.in_force != Codec::none) {
      watch.coded.add(sample.exposed);
      continue;
    }
    watch.gradient.add(sample.bytes);
    const double predicted = predicted_seconds(job, watch, {});
    if (watch.bandwidth.is_known() && predicted > 0) watch.plain.add(sample.exposed / predicted);
  }
  const Codec now = in_force(job).codec;
  if (now != watch.in_force) watch.coded = {};
  watch.in_force = now;
}

void MemoryAware::see_links(const Observation& seen, const JobInfo& job, Watch& watch) const {
  double bandwidth = 0, latency = 0;
  for (const LinkSample& link : seen.samples.links(job.spec.id)) {
    if (link.bandwidth.is_known() && link.bandwidth.value > 0) {
      bandwidth = bandwidth == 0 ? link.bandwidth.value : std::min(bandwidth, link.bandwidth.value);
    }
    if (link.latency.is_known()) latency = std::max(latency, link.latency.value);
  }
  if (bandwidth > 0) watch.bandwidth.add(bandwidth);
  if (latency > 0) watch.latency.add(latency);
}

// ---- decisions ----------------------------------------------------------------------------

/// Returns the permitted codes from the mildest to the most lossy; the first means no compression.
std::vector<CodecRule> MemoryAware::allowed_rules(const JobInfo& job, const Watch& watch) const {
  // Error feedback stores fp32 values of the whole gradient and of this rank's part of the sum.
  const bool has_it = in_force(job).error_feedback && watch.in_force != Codec::none;
  const double needed = has_it ? 0 : watch.gradient.value * (1 + 1.0 / job.layout.data);
  const bool fits = watch.memory.is_known() &&
                    watch.memory.value + needed <= (1 - parameters_.memory_reserve()) * memory_;
  const bool agree =
      watch.variance.is_known() && watch.variance.value <= parameters_.variance_limit();
  std::vector<CodecRule> rules{{}, {.codec = Codec::bf16, .error_feedback = false},
                               {.codec = Codec::int8, .error_feedback = fits}};
  if (fits && agree) rules.push_back({.codec = Codec::int4});
  std::erase_if(rules, [&watch](const CodecRule& code) {
    return (watch.barred >> static_cast<unsigned>(code.codec) & 1) != 0;
  });
  return rules;
}

double MemoryAware::predicted_seconds(const JobInfo& job, const Watch& watch,
                                      const CodecRule& code) const {
  const auto count = static_cast<std::uint64_t>(watch.gradient.value / 4);
  const LinkSpeed link{.latency = watch.latency.value, .bandwidth = watch.bandwidth.value};
  return exchange_seconds(code, count, job.layout.data, link,
                          gpu_throughput(code, memory_bandwidth_));
}

MemoryAware::Choice MemoryAware::choose_rules(const JobInfo& job, const Watch& watch) const {
  const CodecRule now = in_force(job);
  Choice best;
  for (const CodecRule& code : allowed_rules(job, watch)) {
    const Choice next{code, predicted_seconds(job, watch, code)};
    const bool kept = code.codec == now.codec;
    const double threshold = parameters_.gain_threshold() * (kept ? kHysteresis : 1);
    const bool first = code.codec == Codec::none;
    if (first || next.seconds <= (1 - threshold) * best.seconds) best = next;
  }
  return best;
}

/// Returns true if enough samples show that the current code does not shorten the exchange.
bool MemoryAware::is_in_vain(const JobInfo& job, const Watch& watch) const {
  return watch.in_force != Codec::none && watch.plain.samples >= kEnough &&
         watch.coded.samples >= kEnough &&
         watch.coded.value >= (1 - kEqual) * watch.plain.value * predicted_seconds(job, watch, {});
}

/// Returns true if the decision would be the same for a somewhat faster or slower link and a
/// somewhat longer exchange.
bool MemoryAware::is_settled(const JobInfo& job, const Watch& watch) const {
  if (watch.in_force != Codec::none && watch.coded.samples < kEnough) return false;
  Watch faster = watch, slower = watch;
  faster.bandwidth.value += watch.bandwidth.doubt();
  slower.bandwidth.value -= watch.bandwidth.doubt();
  faster.coded.value += watch.coded.doubt();  // a faster link makes a code in vain
  const CodecRule now = in_force(job);
  return choose_rules(job, faster).code == now && choose_rules(job, slower).code == now &&
         !is_in_vain(job, faster);
}

bool MemoryAware::decide_for_job(const JobInfo& job, Watch& watch, DecisionList& decisions) const {
  const Step target = job.step + 1;
  if (job.spec.steps > 0 && target >= job.spec.steps) return true;
  const bool cooling =
      watch.decided && job.step < watch.changes_at + std::max(parameters_.cooldown_steps(), 1u);
  if (job.step < parameters_.warm_up_steps() || cooling) return false;
  if (watch.gradient.samples < kEnough || watch.bandwidth.samples < kEnough) return false;
  if (is_in_vain(job, watch)) watch.barred |= 1u << static_cast<unsigned>(watch.in_force);
  const Choice choice = choose_rules(job, watch);
  if (choice.code == in_force(job)) return is_settled(job, watch);
  std::vector<CodecRule> rules;
  if (choice.code.codec != Codec::none) rules = {choice.code, {.bucket_class = kVectors}};
  Decision& decision =
      decisions.add(Configure{job.spec.id, std::move(rules)}, reason(job, watch, choice));
  decision.at_step = target;
  watch.decided = true;
  watch.changes_at = target;
  return false;
}

std::string MemoryAware::reason(const JobInfo& job, const Watch& watch,
                                const Choice& choice) const {
  const auto share = [&](const Average& of) {
    return of.is_known() ? fmt::format("{:.1f}%", 100 * of.value / memory_) : "unknown";
  };
  const std::string variance =
      watch.variance.is_known() ? fmt::format("{:.2f}", watch.variance.value) : "unknown";
  std::string why = fmt::format(
      "an exchange of {:.3g} MB between {} ranks at {:.3g} MB/s is predicted to take {:.3g} ms as "
      "it is, {:.3g} ms in {}{}; memory in use {}, gradient variance {}",
      watch.gradient.value * 1e-6, job.layout.data, watch.bandwidth.value * 1e-6,
      predicted_seconds(job, watch, {}) * 1e3, choice.seconds * 1e3, codec_name(choice.code.codec),
      choice.code.error_feedback && choice.code.codec != Codec::none ? " with error feedback" : "",
      share(watch.memory), variance);
  if (!is_in_vain(job, watch)) return why;
  const double plain = watch.plain.value * predicted_seconds(job, watch, {});
  return fmt::format("{} took {:.3g} ms, without a code it would take {:.3g} ms; {}",
                     codec_name(watch.in_force), watch.coded.value * 1e3, plain * 1e3, why);
}

// ---- state as bytes -----------------------------------------------------------------------

void MemoryAware::save(Archive& archive) const {
  archive.clear();
  ByteWriter write(archive);
  write(static_cast<std::uint64_t>(watches_.size()));
  for (const auto& [job, watch] : watches_) {
    write(job);
    Watch::fields(watch, write);
  }
}

void MemoryAware::load(const Archive& archive) {
  ByteReader read(archive);
  std::map<JobId, Watch> watches;
  const std::size_t count = read.size();
  for (std::size_t i = 0; i < count; ++i) {
    JobId job;
    read(job);
    Watch::fields(watches[job], read);
  }
  ensure(read.is_at_end(), "a saved policy state has nothing behind it");
  watches_ = std::move(watches);
}

}  // namespace orrery
