#include "live/training/trainer.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "live/training/model.hpp"
#include "live/training/plan_codecs.hpp"

namespace orrery::live {
namespace {

constexpr int kMostOverrun = 3;  // steps in a row beyond the pace

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

/// Memory of this process; 0 where the system does not say.
std::uint64_t resident_bytes() {
  std::uint64_t whole = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> whole >> resident;
  return resident * static_cast<std::uint64_t>(getpagesize());
}

}  // namespace

struct Trainer::Marks {
  Clock::time_point start = Clock::now();
  Nanos now() const { return since(start); }
};

/// From a step's beginning to its end, whichever: nothing of it goes on beside the next one.
struct Trainer::Sending {
  explicit Sending(Trainer& of)
      : trainer(of), from(of.fabric_->bytes_sent()), seconds(of.fabric_->seconds_sending()) {
    const std::scoped_lock lock(trainer.mutex_);
    trainer.sent_from_ = from;
  }
  ~Sending() {
    trainer.exchange_.cancel();
    const std::scoped_lock lock(trainer.mutex_);
    trainer.sent_ += bytes();
    trainer.sent_from_.reset();
  }
  Sending(const Sending&) = delete;
  Sending& operator=(const Sending&) = delete;
  std::uint64_t bytes() const { return trainer.fabric_->bytes_sent() - from; }
  Nanos duration() const { return to_nanos(trainer.fabric_->seconds_sending() - seconds); }

  Trainer& trainer;
  const std::uint64_t from;
  const double seconds;
};

Trainer::Trainer(const Scenario& scenario, const Text& text, Device& device)
    : scenario_(scenario),
      cost_(builtin_cost(scenario.job().model().builtin(), scenario.job().sequence_length())),
      text_(text),
      device_(device),
      exchange_(gradient_tensors(device.tensors()), scenario.job().bucket()) {
  if (scenario.live().reproducible()) sum_.emplace(device_.gradient().size());
  if (scenario.job().layout().shard() == "optimizer") {
    shards_.emplace(device_.parameters(), scenario.live().learning_rate());
  }
}

void Trainer::use(std::shared_ptr<Fabric> fabric) {
  const std::scoped_lock lock(mutex_);
  fabric_.swap(fabric);  // the old one goes when the lock is released
}

void Trainer::interrupt() {
  const std::scoped_lock lock(mutex_);
  interrupted_ = true;
  interrupting_.notify_all();
}

void Trainer::resume() {
  const std::scoped_lock lock(mutex_);
  interrupted_ = false;
}

void Trainer::set_speed(double speed) {
  const std::scoped_lock lock(mutex_);
  const auto now = Clock::now();
  const auto passed = std::chrono::duration<double, std::nano>(now - paced_at_);
  paced_ += passed.count() * speed_;
  paced_at_ = now;
  speed_ = speed;
  interrupting_.notify_all();
}

/// Deadlines count from the step's start, so that one late wake-up does not delay the rest.
void Trainer::begin_pace(Clock::time_point start) {
  const std::scoped_lock lock(mutex_);
  paced_at_ = start;
  paced_ = paced_until_ = 0;
}

/// Of the micro-batch under way, at the present speed. Under the lock.
Clock::time_point Trainer::deadline() const {
  return paced_at_ + std::chrono::nanoseconds(static_cast<Nanos>((paced_until_ - paced_) / speed_));
}

/// From `start` until the newest micro-batch's deadline.
Nanos Trainer::paced_for(Clock::time_point start) {
  const std::scoped_lock lock(mutex_);
  return (deadline() - start) / std::chrono::nanoseconds(1);
}

void Trainer::wait_for_pace() {
  std::unique_lock lock(mutex_);
  for (auto until = deadline(); Clock::now() < until; until = deadline()) {
    interrupting_.wait_until(lock, until, [&] { return interrupted_ || deadline() != until; });
    if (interrupted_) break;
  }
  if (interrupted_) throw Stopped{};
}

void Trainer::begin_micro_batch(double until) {
  const std::scoped_lock lock(mutex_);
  computing_ = true;
  micro_batch_start_ = Clock::now();
  paced_until_ = until;
}

void Trainer::end_micro_batch() {
  const std::scoped_lock lock(mutex_);
  computing_ = false;
  const Nanos spent = since(micro_batch_start_);
  progress_.set_micro_batches_done(progress_.micro_batches_done() + 1);
  progress_.set_micro_batch_time(spent);
  progress_.set_busy(progress_.busy() + spent);
  const Job& job = scenario_.job();
  progress_.set_bytes_moved(progress_.bytes_moved() +
                            job.micro_batch() *
                                memory_traffic(job.model().builtin(), job.sequence_length()));
}

ProgressSample Trainer::snapshot() {
  const std::scoped_lock lock(mutex_);
  ProgressSample sample = progress_;
  sample.set_cpu(process_cpu());
  sample.set_elapsed(since(born_));
  sample.set_memory(resident_bytes());
  sample.set_bytes_sent(sent_ + (sent_from_ ? fabric_->bytes_sent() - *sent_from_ : 0));
  if (fabric_) sample.set_round_trip(to_nanos(fabric_->round_trip()));
  if (!computing_) return sample;
  const Nanos spent = since(micro_batch_start_);
  const Nanos planned = (deadline() - micro_batch_start_) / std::chrono::nanoseconds(1);
  const double part = static_cast<double>(spent) / static_cast<double>(std::max<Nanos>(planned, 1));
  sample.set_micro_batches_done(sample.micro_batches_done() + std::min(part, 0.999));
  sample.set_busy(sample.busy() + spent);
  return sample;
}

double Trainer::micro_batch(Step step, std::uint64_t id) {
  const Job& job = scenario_.job();
  const std::size_t length = job.sequence_length() + cost_.context;
  const std::vector<std::uint8_t> bytes =
      text_.sample(scenario_.run().seed(), step, id, job.micro_batch(), length);
  return device_.accumulate({.bytes = bytes, .sequences = job.micro_batch()});
}

double Trainer::compute(const StepPlan& plan, const Share& share, Marks& marks,
                        StepReport& report) {
  const auto cost = static_cast<double>(scenario_.job().pace().micro_batch());
  begin_pace(marks.start);
  double loss = 0;
  for (std::uint32_t i = 0; i < share.count(); ++i) {
    const Nanos start = marks.now();
    begin_micro_batch(cost * (i + 1));
    const Nanos cpu_before = thread_cpu();
    if (sum_) device_.zero_gradient();
    loss += micro_batch(plan.step(), share.first() + i);
    if (sum_) sum_->add(device_.gradient());
    report.set_work(report.work() + thread_cpu() - cpu_before);
    if (i + 1 == share.count()) start_exchange(plan);
    wait_for_pace();
    end_micro_batch();
    add_op(report, COMPUTE, share.first() + i, start, marks.now(), 0);
  }
  report.set_compute(marks.now());
  check_pace(report, paced_for(marks.start));
  return loss;
}

/// One step may be a hiccup of the machine; several in a row are a pace that cannot be held.
void Trainer::check_pace(const StepReport& report, Nanos allowed) {
  overrun_ = report.work() > allowed ? overrun_ + 1 : 0;
  if (overrun_ < kMostOverrun) return;
  throw PaceMissed(fmt::format(
      "rank {} needed {:.1f} ms of CPU in step {} for work whose pace allows "
      "{:.1f} ms: raise job.pace.micro_batch or use fewer ranks",
      fabric_->rank(), to_seconds(report.work()) * 1e3, report.step(), to_seconds(allowed) * 1e3));
}

/// The gradient is whole before its pace is over: codes are sent as the backward pass, two thirds
/// of a micro-batch, would have released them.
void Trainer::start_exchange(const StepPlan& plan) {
  if (sum_ || !lossy(codecs_) || !scenario_.job().overlap()) return;
  const auto cost = static_cast<double>(scenario_.job().pace().micro_batch());
  Clock::time_point begin, end;
  {
    const std::scoped_lock lock(mutex_);
    const auto backward = std::chrono::nanoseconds(static_cast<Nanos>(cost / speed_ * 2 / 3));
    end = deadline();
    begin = std::max(Clock::now(), end - backward);
  }
  exchange_.start(*fabric_, {plan.step(), plan.epoch(), codecs_}, device_.gradient(), begin,
                  std::max(begin, end));
  beside_ = true;
}

/// Sums the gradients of all ranks into the device's.
void Trainer::exchange(const StepPlan& plan) {
  if (sum_) {
    fabric_->all_reduce_integers(sum_->units());
    return sum_->store(device_.gradient());
  }
  if (std::exchange(beside_, false)) {
    exchange_.finish();
  } else {
    exchange_.reduce(*fabric_, {plan.step(), plan.epoch(), codecs_}, device_.gradient());
  }
  const double variance = exchange_.gradient_variance();
  if (fabric_->ranks() > 1 && std::isfinite(variance)) report_.set_gradient_variance(variance);
}

StepReport Trainer::run_step(const StepPlan& plan) {
  report_.Clear();
  report_.set_step(plan.step());
  report_.set_epoch(plan.epoch());
  {
    const std::scoped_lock lock(mutex_);
    if (interrupted_) throw Stopped{};
    progress_.set_step(plan.step());
    progress_.set_micro_batches_done(0);
  }
  codecs_ = codecs_of(plan);
  ensure(!sum_ || !lossy(codecs_), "a reproducible sum is not coded");
  beside_ = false;
  Marks marks;
  const Sending sending(*this);
  if (update_ > 0) add_op(report_, OPTIMIZER, 0, -std::exchange(update_, 0), 0, 0);
  device_.zero_gradient();
  if (sum_) sum_->clear();
  const Share& share = plan.shares(static_cast<int>(fabric_->rank()));
  const Job& job = scenario_.job();
  const GatherCount before = device_.gathered();
  report_.set_loss_sum(compute(plan, share, marks, report_));
  report_.set_gather_used(device_.gathered().used - before.used);
  report_.set_gather_read(device_.gathered().read - before.read);
  report_.set_predictions(std::uint64_t{share.count()} * job.micro_batch() * job.sequence_length());
  exchange(plan);
  report_.set_duration(marks.now());
  report_.set_exchange_bytes(static_cast<double>(sending.bytes()));
  report_.set_sending(sending.duration());
  report_.set_bytes_sent(sent_ + sending.bytes());
  const auto bytes =
      static_cast<double>(sum_ ? sum_->units().size_bytes() : device_.gradient().size_bytes());
  OpDone& sum = add_op(report_, GRADIENT, 0, report_.compute(), report_.duration(), bytes);
  sum.set_algorithm(
      static_cast<std::uint32_t>(sum_ ? fabric_->algorithm(bytes) : exchange_.algorithm()));
  predictions_ = 0;
  for (const Share& each : plan.shares()) predictions_ += each.count();
  predictions_ *= static_cast<double>(job.micro_batch()) * job.sequence_length();
  return report_;
}

void Trainer::apply() {
  const auto start = Clock::now();
  const auto scale = static_cast<float>(1.0 / predictions_);
  if (shards_) {
    shards_->update(device_.gradient(), scale);
  } else {
    device_.update(scale);
  }
  update_ = since(start);
}

void Trainer::gather() {
  if (!shards_) return;
  const auto start = Clock::now();
  shards_->gather(*fabric_);
  update_ += since(start);
}

TrainingState Trainer::part(const Range& range) const {
  return shards_ ? shards_->part(range) : device_.part(range);
}

void Trainer::restore(const TrainingState& whole) {
  shards_ ? shards_->restore(whole) : device_.restore(whole);
}

StepReport Trainer::abandoned() const {
  StepReport report = report_;
  report.set_abandoned(true);
  report.set_bytes_sent(sent_);
  return report;
}

void Trainer::share_state(std::uint32_t source, bool newcomers, bool current,
                          const ShardedOptimizer::Keepers& keepers) {
  if (shards_) return shards_->deal(*fabric_, current, keepers);
  if (!newcomers) return;
  // A sum in which all but one give zeros: no other way through the fabric is needed.
  std::string state = device_.state();
  std::vector<std::int64_t> words((state.size() + 7) / 8, 0);
  if (fabric_->rank() == source) std::memcpy(words.data(), state.data(), state.size());
  fabric_->all_reduce_integers(words);
  std::memcpy(state.data(), words.data(), state.size());
  if (fabric_->rank() != source) device_.set_state(state);
}

}  // namespace orrery::live
