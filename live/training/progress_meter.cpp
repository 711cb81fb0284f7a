#include "live/training/progress_meter.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>

namespace orrery::live {
namespace {

/// Memory of this process; 0 where the system does not say.
std::uint64_t resident_bytes() {
  std::uint64_t whole = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> whole >> resident;
  return resident * static_cast<std::uint64_t>(getpagesize());
}

}  // namespace

void ProgressMeter::begin_step(Step step) {
  const std::scoped_lock lock(mutex_);
  done_.set_step(step);
  done_.set_micro_batches_done(0);
}

void ProgressMeter::begin_micro_batch() {
  const std::scoped_lock lock(mutex_);
  computing_ = true;
  micro_batch_start_ = Clock::now();
}

void ProgressMeter::end_micro_batch() {
  const std::scoped_lock lock(mutex_);
  computing_ = false;
  const Nanos spent = since(micro_batch_start_);
  done_.set_micro_batches_done(done_.micro_batches_done() + 1);
  done_.set_micro_batch_time(spent);
  done_.set_busy(done_.busy() + spent);
  done_.set_bytes_moved(done_.bytes_moved() + traffic_);
}

ProgressSample ProgressMeter::read(const Pace& pace) const {
  const std::scoped_lock lock(mutex_);
  ProgressSample sample = done_;
  sample.set_cpu(process_cpu());
  sample.set_elapsed(since(born_));
  sample.set_memory(resident_bytes());
  if (!computing_) return sample;
  const Nanos spent = since(micro_batch_start_);
  const Nanos planned = (pace.deadline() - micro_batch_start_) / std::chrono::nanoseconds(1);
  const double part = static_cast<double>(spent) / static_cast<double>(std::max<Nanos>(planned, 1));
  sample.set_micro_batches_done(sample.micro_batches_done() + std::min(part, 0.999));
  sample.set_busy(sample.busy() + spent);
  return sample;
}

}  // namespace orrery::live
