#include "live/training/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "live/training/model.hpp"
#include "live/training/plan_codecs.hpp"
#include "live/training/state_hashes.hpp"
#include "traces/workload/sharding.hpp"

namespace orrery::live {
namespace {

OpDone& add_op(StepReport& report, OpPhase phase, std::uint64_t micro_batch, Nanos start, Nanos end,
               double bytes) {
  OpDone& op = *report.add_ops();
  op.set_phase(phase);
  op.set_micro_batch(micro_batch);
  op.set_start(start);
  op.set_duration(end - start);
  op.set_bytes(bytes);
  return op;
}

/// Guard: the part of the exchange that runs beside the computation ends with the step, in every
/// case.
struct CancelAtEnd {
  explicit CancelAtEnd(GradientExchange& of) : exchange(of) {}
  ~CancelAtEnd() { exchange.cancel_exchange(); }
  CancelAtEnd(const CancelAtEnd&) = delete;
  CancelAtEnd& operator=(const CancelAtEnd&) = delete;
  GradientExchange& exchange;
};

/// Bytes of a micro-batch through memory.
double traffic_of(const Job& job) {
  return job.micro_batch() * memory_traffic(job.model().builtin(), job.sequence_length());
}

}  // namespace

struct Trainer::Marks {
  Clock::time_point start = Clock::now();
  Nanos now() const { return since(start); }
};

Trainer::Trainer(const Scenario& scenario, const Text& text, Device& device)
    : scenario_(scenario),
      cost_(builtin_cost(scenario.job().model().builtin(), scenario.job().sequence_length())),
      text_(text),
      device_(device),
      exchange_(gradient_tensors(device.tensors()), scenario.job().bucket()),
      pace_(scenario.job().pace().micro_batch()),
      progress_(traffic_of(scenario.job())) {
  if (scenario.live().reproducible()) sum_.emplace(device_.gradient().size());
  if (sharding_of(scenario.job().layout()) == Sharding::optimizer) {
    shards_.emplace(device_.parameters(), scenario.live().learning_rate());
  }
}

void Trainer::verify_state() const {
  if (!(shards_ ? shards_->is_state_intact() : device_.is_state_intact())) throw StateDamaged();
}

PartChecksums Trainer::state_checksums() const {
  if (shards_) return shards_->part_checksums();
  const std::optional<Checksum> whole = device_.state_checksum();
  return whole ? PartChecksums{{0, *whole}} : PartChecksums{};
}

ProgressSample Trainer::snapshot() const {
  ProgressSample sample = progress_.read(pace_);
  sample.set_bytes_sent(fabric_.bytes_sent());
  if (const auto round_trip = fabric_.round_trip()) sample.set_round_trip(*round_trip);
  return sample;
}

double Trainer::micro_batch(Step step, std::uint64_t id) {
  const Job& job = scenario_.job();
  const std::size_t length = job.sequence_length() + cost_.context;
  const std::vector<std::uint8_t> bytes =
      text_.sample(scenario_.run().seed(), step, id, job.micro_batch(), length);
  return device_.accumulate_gradient({.bytes = bytes, .sequences = job.micro_batch()});
}

double Trainer::compute_gradient(const StepPlan& plan, const Share& share, Marks& marks,
                                 StepReport& report) {
  pace_.begin_step(marks.start);
  double loss = 0;
  for (std::uint32_t i = 0; i < share.count(); ++i) {
    const Nanos start = marks.now();
    pace_.begin_micro_batch(i + 1);
    progress_.begin_micro_batch();
    const Nanos cpu_before = thread_cpu();
    if (sum_) device_.zero_gradient();
    loss += micro_batch(plan.step(), share.first() + i);
    if (sum_) sum_->add(device_.gradient());
    report.set_work(report.work() + thread_cpu() - cpu_before);
    if (i + 1 == share.count()) start_exchange(plan);
    pace_.wait();
    progress_.end_micro_batch();
    add_op(report, COMPUTE, share.first() + i, start, marks.now(), 0);
  }
  report.set_compute(marks.now());
  pace_.check_pace(fabric_->rank(), report.step(), report.work());
  return loss;
}

/// The gradient is whole before its pace is over: codes are sent as the backward pass, two thirds
/// of a micro-batch, would have released them.
void Trainer::start_exchange(const StepPlan& plan) {
  if (sum_ || !lossy(codecs_) || !scenario_.job().overlap()) return;
  const auto [begin, end] = pace_.backward_pass();
  exchange_.start(*fabric_, {plan.step(), plan.epoch(), codecs_}, device_.gradient(), begin, end);
  beside_ = true;
}

/// Sums the gradients of all ranks into the device's.
void Trainer::exchange(const StepPlan& plan) {
  if (sum_) {
    const double own = sum_->square();
    fabric_->all_reduce_integers(sum_->units());
    sum_->store(device_.gradient());
    return report_squares(own, sum_->square());
  }
  if (std::exchange(beside_, false)) {
    exchange_.finish_exchange();
  } else {
    exchange_.reduce(*fabric_, {plan.step(), plan.epoch(), codecs_}, device_.gradient());
  }
  report_squares(exchange_.own_square(), exchange_.total_square());
}

void Trainer::report_squares(double own, double total) {
  if (fabric_->ranks() < 2 || !std::isfinite(own) || !std::isfinite(total)) return;
  report_.set_own_square(own);
  report_.set_total_square(total);
}

/// Verifies the state, which the step was computed with, and adds its checksums to the report of a
/// reproducible run.
void Trainer::report_state() {
  verify_state();
  if (!scenario_.live().reproducible()) return;
  for (const auto& [part, checksum] : state_checksums()) {
    *report_.add_hashes() = to_wire(part, checksum);
  }
}

StepReport Trainer::run_step(const StepPlan& plan) {
  report_.Clear();
  report_.set_step(plan.step());
  report_.set_epoch(plan.epoch());
  verifies_ = plan.step() % std::max<std::uint64_t>(1, scenario_.survival().verify_every()) == 0;
  pace_.throw_if_interrupted();
  progress_.begin_step(plan.step());
  codecs_ = codecs_of(plan);
  ensure(!sum_ || !lossy(codecs_), "a reproducible sum is not coded");
  beside_ = false;
  Marks marks;
  const MeteredFabric::Count sending(fabric_);
  const CancelAtEnd ends(exchange_);
  if (update_ > 0) add_op(report_, OPTIMIZER, 0, -std::exchange(update_, 0), 0, 0);
  device_.zero_gradient();
  if (sum_) sum_->clear();
  const Share& share = plan.shares(static_cast<int>(fabric_->rank()));
  const Job& job = scenario_.job();
  const GatherCount before = device_.gather_count();
  try {
    report_.set_loss_sum(compute_gradient(plan, share, marks, report_));
  } catch (const Error&) {  // damaged parameters may be the reason
    verify_state();
    throw;
  }
  report_.set_gather_used(device_.gather_count().used - before.used);
  report_.set_gather_read(device_.gather_count().read - before.read);
  report_.set_predictions(std::uint64_t{share.count()} * job.micro_batch() * job.sequence_length());
  report_.set_samples(std::uint64_t{share.count()} * job.micro_batch());
  exchange(plan);
  if (verifies_) report_state();
  report_.set_duration(marks.now());
  report_.set_exchange_bytes(static_cast<double>(sending.bytes()));
  report_.set_sending(sending.duration());
  report_.set_bytes_sent(fabric_.bytes_sent());
  const auto bytes =
      static_cast<double>(sum_ ? sum_->units().size_bytes() : device_.gradient().size_bytes());
  OpDone& sum = add_op(report_, GRADIENT, 0, report_.compute(), report_.duration(), bytes);
  sum.set_algorithm(
      static_cast<std::uint32_t>(sum_ ? fabric_->algorithm(bytes) : exchange_.algorithm()));
  rate_factor_ = plan.learning_rate_factor() > 0 ? plan.learning_rate_factor() : 1;
  predictions_ = 0;
  for (const Share& each : plan.shares()) predictions_ += each.count();
  predictions_ *= static_cast<double>(job.micro_batch()) * job.sequence_length();
  return report_;
}

void Trainer::apply() {
  const auto start = Clock::now();
  const auto scale = static_cast<float>(1.0 / predictions_);
  if (shards_) {
    shards_->update(device_.gradient(), scale, rate_factor_);
  } else {
    device_.update(scale, rate_factor_);
  }
  update_ = since(start);
}

void Trainer::gather_parameters() {
  if (!shards_) return;
  const auto start = Clock::now();
  if (verifies_) verify_state();
  shards_->gather_parameters(*fabric_);
  update_ += since(start);
}

/// Copies before it verifies, so that the copy contains no damage.
TrainingState Trainer::part(const Range& range) const {
  TrainingState copy = shards_ ? shards_->part(range) : device_.part(range);
  verify_state();
  return copy;
}

void Trainer::restore_state(const TrainingState& whole) {
  shards_ ? shards_->restore_state(whole) : device_.restore_state(whole);
}

StepReport Trainer::abandoned_report() const {
  StepReport report = report_;
  report.set_abandoned(true);
  report.set_bytes_sent(fabric_.bytes_sent());
  return report;
}

void Trainer::share_state(std::uint32_t source, bool newcomers, bool current,
                          const ShardedOptimizer::Keepers& keepers) {
  if (shards_) return shards_->deal_state(*fabric_, current, keepers);
  verify_state();
  if (newcomers) copy_state(source);
  verify_state();
}

/// The state travels as a sum in which all but one give zeros: no other way through the fabric is
/// needed. Its checksum follows.
void Trainer::copy_state(std::uint32_t source) {
  std::string state = device_.state();
  const std::size_t bytes = state.size();
  const Checksum own = device_.state_checksum().value_or(Checksum());
  std::vector<std::int64_t> words((bytes + 7) / 8 + 2, 0);
  if (fabric_->rank() == source) {
    std::memcpy(words.data(), state.data(), bytes);
    *(words.end() - 2) = static_cast<std::int64_t>(own.sum());
    words.back() = static_cast<std::int64_t>(own.weighted());
  }
  fabric_->all_reduce_integers(words);
  if (fabric_->rank() == source) return;
  std::memcpy(state.data(), words.data(), bytes);
  device_.set_state(state);
  const Checksum sent(static_cast<std::uint64_t>(*(words.end() - 2)),
                      static_cast<std::uint64_t>(words.back()));
  if (device_.state_checksum().value_or(Checksum()) == sent) return;
  throw FabricBroken("the training state was damaged on its way");
}

}  // namespace orrery::live
