#include "live/run/observations/telemetry.hpp"

#include <algorithm>

#include "live/run/files/run_statistics.hpp"

namespace orrery::live {
namespace {

Sample<double> known(double value, Nanos age, Origin origin = Origin::measured) {
  return {.value = value, .age = age, .origin = origin};
}

}  // namespace

Nanos exchange_time(std::span<const StepReport> reports) {
  Nanos least = kNever;
  for (const StepReport& report : reports) {
    for (const OpDone& op : report.ops()) {
      if (op.phase() == GRADIENT) least = std::min<Nanos>(least, op.duration());
    }
  }
  return least == kNever ? 0 : least;
}

Telemetry::Telemetry(std::uint32_t ranks, double nominal_bytes_per_second, DeclaredNoise declared)
    : nominal_bytes_per_second_(nominal_bytes_per_second), declared_(declared), sources_(ranks) {}

void Telemetry::record_progress(std::uint32_t rank, const ProgressSample& sample, Nanos now) {
  Source& source = sources_[rank];
  source.newest = sample;
  if (sample.has_device()) source.device = sample.device();
  source.at = now;
  source.fresh = true;
}

void Telemetry::record_step(Step step, std::uint64_t samples, double bytes,
                            std::span<const StepReport> reports, Nanos now) {
  const Nanos slowest = slowest_compute(reports);
  noise_.add_step(reports, samples);
  stepped_.emplace(step, now);
  auto algorithm = CollectiveAlgorithm::automatic;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    const StepReport& report = reports[rank];
    Source& source = sources_[rank];
    source.wait_s = to_seconds(slowest - report.compute());
    source.waited_at = now;
    source.exchanged = true;
    const double sending = to_seconds(report.sending());
    source.bandwidth = sending > 0 ? report.exchange_bytes() / sending : 0;
    source.variance = gradient_variance(report, samples);
    for (const OpDone& op : report.ops()) {
      if (op.phase() == GRADIENT) algorithm = static_cast<CollectiveAlgorithm>(op.algorithm());
    }
  }
  if (std::count_if(reports.begin(), reports.end(),
                    [](const StepReport& each) { return each.ops_size() > 0; }) < 2) {
    return;
  }
  arriving_.push_back({.job = {},
                       .step = step,
                       .kind = CollectiveKind::all_reduce,
                       .algorithm = algorithm,
                       .bytes = bytes,
                       .ranks = static_cast<std::uint32_t>(reports.size()),
                       .exposed = to_seconds(exchange_time(reports))});
}

void Telemetry::refresh_samples(Nanos now) {
  devices_.clear();
  links_.clear();
  ranks_out_.clear();
  collectives_.clear();
  collectives_.swap(arriving_);
  for (std::uint32_t rank = 0; rank < sources_.size(); ++rank) {
    Source& source = sources_[rank];
    if (source.fresh) take_rank(rank, source, now);
  }
}

void Telemetry::take_device(std::uint32_t rank, const Source& source, Nanos age) {
  const ProgressSample& newest = source.newest;
  const ProgressSample& before = source.taken;
  const Nanos window = newest.elapsed() - before.elapsed();
  if (window <= 0) return;
  const double seconds = to_seconds(window);
  const double busy = to_seconds(newest.busy() - before.busy()) / seconds;
  const double rate = (newest.bytes_moved() - before.bytes_moved()) / seconds;
  DeviceSample device{
      .gpu = {rank},
      .utilization = known(std::clamp(busy, 0.0, 1.0), age),
      .memory_bandwidth =
          known(std::clamp(rate / nominal_bytes_per_second_, 0.0, 1.0), age, Origin::modelled),
      .memory_used = {},
      .power = {}};
  if (newest.memory() > 0) device.memory_used = known(static_cast<double>(newest.memory()), age);
  // Driver measurements are better than values derived from the rank's pace and process.
  const DeviceReading& gpu = newest.device();
  if (gpu.has_utilization()) device.utilization = known(gpu.utilization(), age);
  if (gpu.has_memory_bandwidth()) device.memory_bandwidth = known(gpu.memory_bandwidth(), age);
  if (gpu.has_memory_used()) device.memory_used = known(gpu.memory_used(), age);
  if (gpu.has_power()) device.power = known(gpu.power(), age);
  devices_.push_back(device);
}

void Telemetry::take_link(std::uint32_t rank, const Source& source, Nanos now) {
  const Nanos trip = source.newest.round_trip();
  const bool timed = trip > 0 && trip != source.taken.round_trip();
  const bool measured = source.exchanged && source.bandwidth > 0;
  if (!timed && !measured) return;
  const auto next = static_cast<std::uint32_t>((rank + 1) % sources_.size());
  links_.push_back({.from = {rank}, .to = {next}, .latency = {}, .bandwidth = {}});
  if (timed) links_.back().latency = known(to_seconds(trip) / 2, now - source.at);
  if (measured) links_.back().bandwidth = known(source.bandwidth, now - source.waited_at);
}

Sample<double> Telemetry::noise_scale(Nanos now) const {
  if (!stepped_) return {};
  const Nanos age = now - stepped_->second;
  if (const auto noise = declared_.noise_scale(stepped_->first)) {
    return known(*noise, age, Origin::modelled);
  }
  const std::optional<double> noise = noise_.value();
  return noise ? known(*noise, age) : Sample<double>{};
}

void Telemetry::take_rank(std::uint32_t rank, Source& source, Nanos now) {
  const Nanos age = now - source.at;
  const ProgressSample& newest = source.newest;
  take_device(rank, source, age);
  take_link(rank, source, now);
  RankSample out;
  out.rank = {rank};
  out.step = newest.step();
  out.micro_batches_done = known(newest.micro_batches_done(), age);
  if (newest.micro_batch_time() > 0) {
    out.micro_batch_time = known(to_seconds(newest.micro_batch_time()), age);
  }
  if (source.waited_at >= 0) out.wait_time = known(source.wait_s, now - source.waited_at);
  if (source.exchanged && source.variance) {
    out.gradient_variance = known(*source.variance, now - source.waited_at);
  }
  out.noise_scale = noise_scale(now);
  ranks_out_.push_back(out);
  source.taken = newest;
  source.fresh = source.exchanged = false;
}

}  // namespace orrery::live
