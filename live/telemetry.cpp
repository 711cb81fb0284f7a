#include "live/telemetry.hpp"

#include <algorithm>

namespace orrery::live {

Nanos slowest_compute(std::span<const StepReport> reports) {
  Nanos most = 0;
  for (const StepReport& report : reports) most = std::max<Nanos>(most, report.compute());
  return most;
}

Nanos exchange_time(std::span<const StepReport> reports) {
  Nanos least = kNever;
  for (const StepReport& report : reports) {
    for (const OpDone& op : report.ops()) {
      if (op.phase() == GRADIENT) least = std::min<Nanos>(least, op.duration());
    }
  }
  return least == kNever ? 0 : least;
}

Telemetry::Telemetry(std::uint32_t ranks, double nominal_bytes_per_second)
    : nominal_bytes_per_second_(nominal_bytes_per_second), sources_(ranks) {}

void Telemetry::progress(std::uint32_t rank, const ProgressSample& sample, Nanos now) {
  Source& source = sources_[rank];
  source.newest = sample;
  source.at = now;
  source.fresh = true;
}

void Telemetry::step_done(std::span<const StepReport> reports, Nanos now) {
  const Nanos slowest = slowest_compute(reports);
  double bytes = 0;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    sources_[rank].wait_s = to_seconds(slowest - reports[rank].compute());
    sources_[rank].waited_at = now;
    for (const OpDone& op : reports[rank].ops()) bytes = std::max(bytes, op.bytes());
  }
  if (reports.size() == 1) return;
  arriving_.push_back({.job = {},
                       .kind = CollectiveKind::all_reduce,
                       .algorithm = CollectiveAlgorithm::ring,
                       .bytes = bytes,
                       .ranks = static_cast<std::uint32_t>(reports.size()),
                       .duration = to_seconds(exchange_time(reports))});
}

void Telemetry::take(Nanos now) {
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

void Telemetry::take_rank(std::uint32_t rank, Source& source, Nanos now) {
  const Nanos age = now - source.at;
  const auto sample = [age](double value, Origin origin) {
    return Sample<double>{.value = value, .age = age, .origin = origin};
  };
  const ProgressSample& newest = source.newest;
  const ProgressSample& before = source.taken;
  if (const Nanos window = newest.elapsed() - before.elapsed(); window > 0) {
    const double seconds = to_seconds(window);
    const double busy = to_seconds(newest.busy() - before.busy()) / seconds;
    const double rate = (newest.bytes_moved() - before.bytes_moved()) / seconds;
    DeviceSample device{
        .gpu = {rank},
        .utilization = sample(std::clamp(busy, 0.0, 1.0), Origin::measured),
        .memory_bandwidth =
            sample(std::clamp(rate / nominal_bytes_per_second_, 0.0, 1.0), Origin::modelled),
        .memory_used = {},
        .power = {}};
    // What the driver of a GPU says is better than what follows from the rank's pace.
    const DeviceReading& gpu = newest.device();
    const auto measured = [&](double value) { return sample(value, Origin::measured); };
    if (gpu.has_utilization()) device.utilization = measured(gpu.utilization());
    if (gpu.has_memory_bandwidth()) device.memory_bandwidth = measured(gpu.memory_bandwidth());
    if (gpu.has_memory_used()) device.memory_used = measured(gpu.memory_used());
    if (gpu.has_power()) device.power = measured(gpu.power());
    devices_.push_back(device);
  }
  if (newest.round_trip() > 0 && newest.round_trip() != before.round_trip()) {
    const auto next = static_cast<std::uint32_t>((rank + 1) % sources_.size());
    links_.push_back({.from = {rank},
                      .to = {next},
                      .latency = sample(to_seconds(newest.round_trip()) / 2, Origin::measured),
                      .bandwidth = {}});
  }
  RankSample out;
  out.rank = {rank};
  out.step = newest.step();
  out.micro_batches_done = sample(newest.micro_batches_done(), Origin::measured);
  if (newest.micro_batch_time() > 0) {
    out.micro_batch_time = sample(to_seconds(newest.micro_batch_time()), Origin::measured);
  }
  if (source.waited_at >= 0) {
    out.wait_time = {
        .value = source.wait_s, .age = now - source.waited_at, .origin = Origin::measured};
  }
  ranks_out_.push_back(out);
  source.taken = newest;
  source.fresh = false;
}

}  // namespace orrery::live
