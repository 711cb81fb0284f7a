#include "sim/training/telemetry.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/random.hpp"
#include "sim/estimates/plan/plan.hpp"
#include "sim/training/sample_noise.hpp"

namespace orrery::sim {
namespace {

/// Fields with an error, in the order of their random numbers.
constexpr std::array kWithError{SampleField::micro_batches_done,
                                SampleField::micro_batch_time,
                                SampleField::wait_time,
                                SampleField::utilization,
                                SampleField::memory_bandwidth,
                                SampleField::memory_used,
                                SampleField::power,
                                SampleField::latency,
                                SampleField::bandwidth};
constexpr std::uint64_t kErrors = kWithError.size();

/// Returns the place of a field's error among those of its row.
std::uint64_t error_place(SampleField field) {
  return static_cast<std::uint64_t>(std::find(kWithError.begin(), kWithError.end(), field) -
                                    kWithError.begin());
}

/// Micro-batches done of a rank that has ended one: a rank that waits for data behind its first
/// micro-batch has done 1 up to a rounding, which differs between equal replicas that are simulated
/// once and those that are simulated each.
constexpr double kOne = 1 - 1e-6;
/// Micro-batches done of a rank that surely shows at least one at all later instants of the step:
/// rounding can lower a count between two instants, but far less.
constexpr double kSurelyOne = 1 - 1e-7;

/// Returns the links between neighbours of the data-parallel rings of tensor rank 0, of one stage
/// after the other.
SampleRows ring_neighbours(const Cluster& cluster, const StepGraph& graph,
                           const std::vector<GpuId>& placement) {
  SampleRows rows;
  for (std::uint32_t stage = 0; stage < graph.pipeline(); ++stage) {
    std::vector<GpuId> members;
    for (std::uint32_t replica = 0; replica < graph.data(); ++replica) {
      members.push_back(placement[graph.rank(replica, stage, 0).value]);
    }
    const std::vector<GpuId> ring = estimates::ring_channels(cluster, members).front();
    for (std::size_t i = 0; i < ring.size(); ++i) {
      rows.ids.push_back(ring[i].value);
      rows.to.push_back(ring[(i + 1) % ring.size()].value);
    }
  }
  return rows;
}

/// Returns the instant to which the errors of a sample belong, in nanoseconds. The end of the same
/// step may differ by a nanosecond, folded and in full detail.
std::uint64_t nearest_microsecond(Nanos now) {
  return static_cast<std::uint64_t>((now + 500) / 1000 * 1000);
}

}  // namespace

Telemetry::Telemetry(const Cluster& cluster, const StepGraph& graph,
                     const std::vector<GpuId>& placement,
                     const std::vector<std::uint32_t>& numbers, const Noise& noise,
                     std::uint64_t seed)
    : cluster_(cluster),
      graph_(graph),
      placement_(placement),
      numbers_(numbers),
      compute_cv_(noise.compute_cv()),
      sample_cv_(noise.sample_cv()),
      gradient_variance_(noise.gradient_variance()),
      declared_(declared_noise(graph.job())),
      staleness_(noise.staleness()),
      source_(source_of(seed)),
      later_(source_) {
  const std::uint32_t share = (graph.micro_batches() + graph.data() - 1) / graph.data();
  for (std::uint32_t stage = 0; stage < graph.pipeline(); ++stage) {
    memory_.push_back(graph.memory(stage, share).total().value);
  }
}

Telemetry::Source Telemetry::source_of(std::uint64_t seed) const {
  return {.compute = RankNoise(compute_cv_, graph_.members() * graph_.pipeline(),
                               Rng(seed).split_stream("compute").next()),
          .sample = Rng(seed).split_stream("sample").next()};
}

void Telemetry::reseed_noise(Nanos from, std::uint64_t seed) {
  later_ = source_of(seed);
  reseeded_ = from;
  stretches_ = {};
  columns_.forget_columns();
}

void Telemetry::begin_step(estimates::PlayedStep played) {
  done_.at = kNever;
  columns_.forget_columns();
  steps_.push_back(std::move(played));
  // From now on nothing older is looked at than this, and the step before it.
  const Nanos oldest = steps_.back().start() - staleness_;
  while (steps_.size() > 2 && steps_[2].start() <= oldest) steps_.pop_front();
}

void Telemetry::forget_steps() {
  steps_.clear();
  done_.at = kNever;
  columns_.forget_columns();
}

Telemetry::Look Telemetry::look_at(Nanos now) const {
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    if (now - staleness_ < step->start()) continue;
    return {&*step, step + 1 == steps_.rend() ? nullptr : &*(step + 1)};
  }
  return {};
}

const std::vector<double>& Telemetry::done_at(const estimates::PlayedStep& step, Nanos now) {
  if (done_.at == now) return done_.values;
  done_.at = now;
  done_.values.resize(groups());
  // Without noise of the compute times, the replicas of one class are at one place.
  const std::uint32_t stages = graph_.pipeline();
  const std::vector<std::uint32_t>& class_of = step.what().plan.class_of;
  std::vector<std::uint32_t> first_of_class(step.what().plan.classes.size(), graph_.data());
  for (std::uint32_t replica = 0; replica < graph_.data(); ++replica) {
    std::uint32_t& first = first_of_class[class_of[replica]];
    double* const own = done_.values.data() + std::size_t{replica} * stages;
    if (first < replica && step.stretch().empty()) {
      std::copy_n(done_.values.data() + std::size_t{first} * stages, stages, own);
      continue;
    }
    first = replica;
    for (std::uint32_t stage = 0; stage < stages; ++stage) {
      own[stage] = step.done(replica, stage, now - staleness_);
    }
  }
  return done_.values;
}

void Telemetry::index_groups() {
  if (!group_of_rank_.empty()) return;
  group_of_rank_.reserve(graph_.ranks());
  for (std::uint32_t rank = 0; rank < graph_.ranks(); ++rank) {
    const auto [replica, stage, member] = graph_.position({rank});
    group_of_rank_.push_back(replica * graph_.pipeline() + stage);
  }
}

template <class ValueOf>
void Telemetry::fill_groups(Range ranks, const ValueOf& value_of, std::vector<double>& out) {
  index_groups();
  const auto of_group = [&](std::uint32_t group) {
    return value_of(group / graph_.pipeline(), group % graph_.pipeline());
  };
  out.resize(ranks.count);
  if (ranks.count < groups()) {
    for (std::uint32_t i = 0; i < ranks.count; ++i) {
      out[i] = of_group(group_of_rank_[ranks.first + i]);
    }
    return;
  }
  std::vector<double>& values = buffers_.of_group;
  values.resize(groups());
  for (std::uint32_t group = 0; group < groups(); ++group) values[group] = of_group(group);
  for (std::uint32_t i = 0; i < ranks.count; ++i) {
    out[i] = values[group_of_rank_[ranks.first + i]];
  }
}

/// Multiplies values by 1 plus an error; missing values stay missing.
void Telemetry::add_errors(Nanos now, std::uint64_t first_place,
                           std::vector<double>& values) const {
  if (sample_cv_ == 0) return;
  sim::add_errors(source(now).sample, nearest_microsecond(now), first_place, kErrors, sample_cv_,
                  values);
}

std::shared_ptr<const SampleRows> Telemetry::rows(SampleTable table, Nanos now) {
  if (table == SampleTable::links) {
    return now < staleness_ || links_.rows == nullptr ? no_rows() : links_.rows;
  }
  if (table == SampleTable::devices) return columns_.device_rows(placement_);
  const estimates::PlayedStep* const step = look_at(now).step;
  return columns_.rank_rows(numbers_, step == nullptr ? 0 : step->step());
}

void Telemetry::fill_rank(std::uint32_t rank, Nanos now, RankSample& out) {
  for (const SampleField field : fields_of(SampleTable::ranks)) {
    fill_range(field, now, {rank, 1}, buffers_.of_rank);
    value_of(out, field) = buffers_.of_rank.sample(0);
  }
}

void Telemetry::fill_range(SampleField field, Nanos now, Range ranks, SampleColumn& out) {
  out.ages = {staleness_};
  out.origins = {Origin::measured};
  if (table_of(field) == SampleTable::links) {
    if (now < staleness_) return;
    out.values = field == SampleField::latency ? links_.latency : links_.bandwidth;
    const std::uint64_t first_place = std::uint64_t{graph_.ranks()} * kErrors;
    return add_errors(now, first_place + error_place(field), out.values);
  }
  const Look look = look_at(now);
  if (look.step == nullptr) {
    out.values.assign(ranks.count, kMissing);
    return;
  }
  if (field == SampleField::gradient_variance || field == SampleField::noise_scale) {
    return fill_gradients(field, look, ranks, out);
  }
  const bool whole = ranks.count == graph_.ranks();
  const std::vector<double>* const known =
      whole ? columns_.find_column(field, *look.step, now) : nullptr;
  if (known != nullptr) {
    out.values = *known;
  } else if (fill_exact(field, look, now, ranks, out.values) && whole) {
    columns_.store_column(field, *look.step, now, out.values);
  }
  if (field == SampleField::input_wait) return;  // the program measures its own wait
  add_errors(now, ranks.first * kErrors + error_place(field), out.values);
  if (field == SampleField::micro_batches_done) clamp_counts(*look.step, ranks, out.values);
  if (field != SampleField::utilization) return;
  for (double& value : out.values) value = std::clamp(value, 0.0, 1.0);
}

void Telemetry::clamp_counts(const estimates::PlayedStep& step, Range ranks,
                             std::vector<double>& counts) {
  const bool whole = ranks.count == graph_.ranks();
  const std::vector<double>* most = whole ? columns_.find_counts(step) : nullptr;
  std::vector<double> computed;
  if (most == nullptr) {
    const auto count_of = [&](std::uint32_t replica, std::uint32_t) {
      return static_cast<double>(step.micro_batches(replica));
    };
    fill_groups(ranks, count_of, computed);
    if (whole) columns_.store_counts(step, computed);
    most = &computed;
  }
  for (std::uint32_t i = 0; i < ranks.count; ++i) {
    counts[i] = std::clamp(counts[i], 0.0, (*most)[i]);
  }
}

bool Telemetry::fill_exact(SampleField field, const Look& look, Nanos now, Range ranks,
                           std::vector<double>& out) {
  if (field == SampleField::micro_batch_time) return fill_times(look, now, ranks, out);
  if (field == SampleField::micro_batches_done) {
    const std::vector<double>& done = done_at(*look.step, now);
    fill_groups(
        ranks,
        [&](std::uint32_t replica, std::uint32_t stage) {
          return done[replica * graph_.pipeline() + stage];
        },
        out);
    return false;
  }
  const bool is_input = field == SampleField::input_wait;
  if (field != SampleField::wait_time && !is_input) {
    fill_device(field, *look.step, ranks, out);
  } else if (look.before == nullptr) {
    out.assign(ranks.count, kMissing);
  } else {
    const auto wait = [&](std::uint32_t replica, std::uint32_t stage) {
      return is_input ? look.before->input_wait(replica, stage)
                      : look.before->wait_time(replica, stage);
    };
    fill_groups(ranks, wait, out);
  }
  return true;
}

void Telemetry::fill_device(SampleField field, const estimates::PlayedStep& step, Range ranks,
                            std::vector<double>& out) {
  const GpuModel& gpu = cluster_.gpu_model();
  const auto value_of = [&](std::uint32_t replica, std::uint32_t stage) {
    if (field == SampleField::memory_used) return memory_[stage];
    if (field == SampleField::memory_bandwidth) {
      return std::min(1.0, step.memory_rate(replica, stage) / gpu.memory_bandwidth.value);
    }
    if (field == SampleField::utilization) return step.utilization(replica, stage);
    return mean_power(gpu, step.activity(replica, stage), step.what().run.clock).value;
  };
  fill_groups(ranks, value_of, out);
}

/// Returns each rank's time as a fraction of the slowest rank's, which is the replica's.
const std::vector<double>& Telemetry::stretches_of(const estimates::PlayedStep& step) {
  static const std::vector<double> alike;
  if (step.stretch().empty()) return alike;
  const auto is_of = [&](const Stretches& known) {
    return known.start == step.start() && known.step == step.step();
  };
  auto& [newer, older] = stretches_;
  if (is_of(newer)) return newer.factors;
  if (is_of(older)) return older.factors;
  std::swap(newer, older);
  newer = {.step = step.step(), .start = step.start(), .factors = {}};
  newer.factors.reserve(graph_.ranks());
  const RankNoise& noise = source(step.start()).compute;
  for (std::uint32_t each = 0; each < graph_.ranks(); ++each) {
    const auto [replica, stage, member] = graph_.position({each});
    const std::uint32_t place = stage * graph_.members() + member;
    newer.factors.push_back(noise.of_rank(step.step(), replica, place) / step.stretch()[replica]);
  }
  return newer.factors;
}

/// A rank without a finished micro-batch in this step shows its time in the step before.
bool Telemetry::fill_times(const Look& look, Nanos now, Range ranks, std::vector<double>& out) {
  std::vector<std::uint8_t>& are_older = buffers_.are_older;
  are_older.resize(groups());
  bool any_newer = false, any_older = false, lasts = true;
  const std::vector<double>& done = done_at(*look.step, now);
  const auto time_of = [&](std::uint32_t replica, std::uint32_t stage) {
    const double own = done[replica * graph_.pipeline() + stage];
    const bool older = own < kOne;
    lasts = lasts && (own > kSurelyOne || look.step->micro_batches(replica) == 0);
    const estimates::PlayedStep* const timed = older ? look.before : look.step;
    if (timed == nullptr || timed->micro_batches(replica) == 0) return kMissing;
    are_older[replica * graph_.pipeline() + stage] = older;
    (older ? any_older : any_newer) = true;
    return timed->micro_batch_time(replica, stage);
  };
  fill_groups(ranks, time_of, out);
  const auto stretch = [&](const estimates::PlayedStep& step, bool older) {
    const std::vector<double>& factors = stretches_of(step);
    if (factors.empty()) return;
    for (std::uint32_t i = 0; i < ranks.count; ++i) {
      const std::uint32_t rank = ranks.first + i;
      if ((are_older[group_of_rank_[rank]] != 0) == older) out[i] *= factors[rank];
    }
  };
  // The older step first: the newer one stays known for the next look.
  if (any_older) stretch(*look.before, true);
  if (any_newer) stretch(*look.step, false);
  return lasts;
}

/// A gradient of b sequences has the expected square |G|^2 (1 + N / b); N is the noise scale.
double Telemetry::gradient_variance_of(const estimates::PlayedStep& newest, std::uint32_t replica,
                                       double all) const {
  const double noise = declared_.noise_scale(newest.step()).value_or(0);
  const double own = newest.micro_batches(replica), each = graph_.job().micro_batch();
  if (own == 0 || graph_.data() < 2) return kMissing;
  return (1 + noise / (own * each)) / (1 + noise / (all * each)) - 1;
}

void Telemetry::fill_gradients(SampleField field, const Look& look, Range ranks,
                               SampleColumn& out) {
  out.origins = {Origin::modelled};
  const bool declared = declared_.at_start > 0;
  if (declared && look.step->step() > 0) {
    const estimates::PlayedStep& newest = look.before != nullptr ? *look.before : *look.step;
    if (field == SampleField::noise_scale) {
      out.values.assign(ranks.count, declared_.noise_scale(newest.step()).value_or(0));
    } else {
      double all = 0;
      for (std::uint32_t each = 0; each < graph_.data(); ++each) all += newest.micro_batches(each);
      std::vector<double> of_replica(graph_.data());
      for (std::uint32_t each = 0; each < graph_.data(); ++each) {
        of_replica[each] = gradient_variance_of(newest, each, all);
      }
      fill_groups(
          ranks, [&](auto replica, auto) { return of_replica[replica]; }, out.values);
    }
    return;
  }
  const bool given = !declared && field == SampleField::gradient_variance &&
                     look.before != nullptr && gradient_variance_ > 0;
  out.values.assign(ranks.count, given ? gradient_variance_ : kMissing);
}

void Telemetry::update_links(const estimates::Stepper& stepper,
                             const estimates::HardwareState& state) {
  if (graph_.data() < 2) return;
  if (links_.rows == nullptr) {
    links_.rows = std::make_shared<SampleRows>(ring_neighbours(cluster_, graph_, placement_));
    for (std::size_t i = 0; i < links_.rows->size(); ++i) {
      const GpuId from{links_.rows->ids[i]}, to{links_.rows->to[i]};
      links_.latency.push_back(cluster_.latency(from, to).value);
    }
  } else if (links_.state == state) {
    return;
  }
  links_.state = state;
  links_.bandwidth.assign(links_.rows->size(), 0);
  std::vector<LinkId> route;
  for (std::size_t i = 0; i < links_.rows->size(); ++i) {
    double& bandwidth = links_.bandwidth[i];
    route.clear();
    cluster_.route({links_.rows->ids[i]}, {links_.rows->to[i]}, route);
    for (const LinkId link : route) {
      const double rate = stepper.effective_bandwidth(link, state);
      bandwidth = bandwidth == 0 ? rate : std::min(bandwidth, rate);
    }
  }
}

std::vector<double> Telemetry::stretch(Step step, Nanos start, std::uint32_t replicas) const {
  const RankNoise& noise = source(start).compute;
  if (noise.none()) return {};
  std::vector<double> factors(replicas);
  for (std::uint32_t replica = 0; replica < replicas; ++replica) {
    factors[replica] = noise.slowest(step, replica);
  }
  return factors;
}

}  // namespace orrery::sim
