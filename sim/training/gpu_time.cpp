#include "sim/training/gpu_time.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"

namespace orrery::sim {
namespace {

/// GPUs without a process draw idle power; in all other stalls processes wait.
EnergyMeter::Mix mix_of(GpuUse use) {
  EnergyMeter::Mix mix;
  const Activity activity = use == GpuUse::idle ? Activity::idle : Activity::waiting;
  mix.time[static_cast<std::size_t>(activity)] = 1;
  return mix;
}

}  // namespace

void GpuTimeLedger::book_until(Nanos until, GpuUse use) {
  if (until <= cursor_) return;
  meter_.add(cursor_, until, gpus_, mix_of(use));
  spent(use) += GpuNanos{until - cursor_} * gpus_;
  cursor_ = until;
}

void GpuTimeLedger::stall_until(Nanos until, GpuUse use) {
  const Nanos from = pauses_.empty() ? cursor_ : pauses_.back().until;
  if (until > from) pauses_.push_back({until, use});
}

void GpuTimeLedger::interrupt_at(Nanos now) {
  advance_to(now);
  pauses_.clear();
}

void GpuTimeLedger::stall_for_loss(Nanos now, Nanos noticed, Nanos resumed) {
  interrupt_at(now);
  stall_until(noticed, GpuUse::detection);
  stall_until(resumed, GpuUse::recovery);
}

void GpuTimeLedger::advance_to(Nanos now) {
  std::size_t over = 0;
  for (const Pause& pause : pauses_) {
    book_until(std::min(pause.until, now), pause.use);
    if (pause.until > now) break;
    ++over;
  }
  pauses_.erase(pauses_.begin(), pauses_.begin() + static_cast<std::ptrdiff_t>(over));
  book_until(now, GpuUse::idle);
}

void GpuTimeLedger::lose_step(Nanos began, Nanos now, std::uint32_t working) {
  advance_to(began);
  const GpuNanos worked = GpuNanos{now - cursor_} * std::min(working, gpus_);
  const GpuNanos all = GpuNanos{now - cursor_} * gpus_;
  if (now <= cursor_) return;
  meter_.add(cursor_, now, std::min(working, gpus_), newest_);
  meter_.add(cursor_, now, gpus_ - std::min(working, gpus_), mix_of(GpuUse::idle));
  spent(GpuUse::lost_work) += worked;
  spent(GpuUse::idle) += all - worked;
  cursor_ = now;
}

void GpuTimeLedger::commit_steps(Nanos length, const std::array<double, kStepUses>& shares,
                                 std::uint32_t working, const EnergyMeter::Mix& mix) {
  const bool known = std::any_of(mix.time.begin(), mix.time.end(), [](double t) { return t > 0; });
  newest_ = known ? mix : kProducts;
  meter_.add(cursor_, cursor_ + length, std::min(working, gpus_), newest_);
  meter_.add(cursor_, cursor_ + length, gpus_ - std::min(working, gpus_), mix_of(GpuUse::idle));
  const GpuNanos all = GpuNanos{length} * gpus_;
  const GpuNanos worked = GpuNanos{length} * std::min(working, gpus_);
  double sum = 0;
  for (const double share : shares) sum += share;
  GpuNanos left = worked;
  for (std::size_t use = 1; use < kStepUses && sum > 0; ++use) {
    const double part = std::max(0.0, shares[use]) / sum * static_cast<double>(worked);
    const GpuNanos whole = std::min(left, static_cast<GpuNanos>(part));
    spent_[use] += whole;
    left -= whole;
  }
  spent(GpuUse::computing) += left;  // including the rounding remainder
  spent(GpuUse::idle) += all - worked;
  cursor_ += length;
}

GpuTimeLedger::StepTime GpuTimeLedger::step_time() const {
  StepTime time{};
  std::copy_n(spent_.begin(), kStepUses, time.begin());
  return time;
}

void GpuTimeLedger::mark_checkpoint(Step step, Step durable) {
  marks_.erase(marks_.begin(), marks_.lower_bound(durable));
  marks_[step] = step_time();
}

void GpuTimeLedger::roll_back(Step step) {
  const auto known = marks_.find(step);
  const StepTime kept = known == marks_.end() ? StepTime{} : known->second;
  for (std::size_t use = 0; use < kStepUses; ++use) {
    ensure(spent_[use] >= kept[use], "what was worked before a checkpoint stays");
    spent(GpuUse::lost_work) += spent_[use] - kept[use];
    spent_[use] = kept[use];
  }
  if (known == marks_.end()) return marks_.clear();
  marks_.erase(marks_.upper_bound(step), marks_.end());
}

GpuTimeLedger::GpuNanos GpuTimeLedger::total() const {
  GpuNanos sum = 0;
  for (const GpuNanos each : spent_) sum += each;
  return sum;
}

double GpuTimeLedger::seconds(GpuUse use) const {
  return static_cast<double>(spent_[static_cast<std::size_t>(use)]) * 1e-9;
}

void GpuTimeLedger::fill(GpuTime& report) const {
  report.set_computing(seconds(GpuUse::computing));
  report.set_exposed_communication(seconds(GpuUse::exposed_communication));
  report.set_bubble(seconds(GpuUse::bubble));
  report.set_waiting(seconds(GpuUse::waiting));
  report.set_input(seconds(GpuUse::input));
  report.set_checkpoint(seconds(GpuUse::checkpoint));
  report.set_lost_work(seconds(GpuUse::lost_work));
  report.set_detection(seconds(GpuUse::detection));
  report.set_recovery(seconds(GpuUse::recovery));
  report.set_idle(seconds(GpuUse::idle));
  report.set_total(static_cast<double>(total()) * 1e-9);
}

}  // namespace orrery::sim
