#include "sim/training/storage_traffic.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/units.hpp"
#include "sim/training/storage_rates.hpp"

namespace orrery::sim {
namespace {

/// Number of values, in a power of e, to which rates of reads are rounded in a step in which a
/// checkpoint ends, so that such steps are found in the cache again.
constexpr double kSteps = 256;

/// Returns the number of processes of a rank that read beside each other.
double readers_beside(const Prefetch& set, const Input& input) {
  const std::uint32_t workers = set.workers > 0 ? set.workers : input.workers();
  const std::uint32_t depth = set.workers > 0 ? set.depth : input.prefetch();
  return std::max(1u, std::min(workers, depth));
}

/// Returns the rate at which the processes of a rank read without other traffic.
double own_read_rate(const Prefetch& set, const Input& input) {
  const double read = to_seconds(input.read());
  return read > 0 ? readers_beside(set, input) * input.stored() / read : kUnlimited;
}

/// Returns the bytes that a rank reads in one step, the mean of the replicas. `shares`: their
/// micro-batches.
double step_bytes(const Input& input, const std::vector<std::uint32_t>& shares) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  return sum / std::max(1.0, static_cast<double>(shares.size())) * input.stored();
}

/// Returns the seconds until the checkpoint in flight is complete if each rank writes at `rate`.
double write_time(const TrainingState& state, double rate) {
  return state.saving.bytes_left(state.now) / (rate * state.fit().graph().ranks());
}

StorageRates rates_now(const JobInWorld& here, const TrainingState& state, StorageRates wanted) {
  return storage_rates(here.scenario().cluster().storage(),
                       state.faults.plan.storage(state.step, state.now),
                       state.fit().storage_nodes(), wanted);
}

}  // namespace

void set_reads(const JobInWorld& here, const TrainingState& state, StepConditions& step) {
  const Input& input = here.scenario().job().input();
  if (!input.has_stored() || is_input_cut(here, state)) return;
  const double own = own_read_rate(step.input, input);
  const double alone = rates_now(here, state, {.write = 0, .read = own}).read;
  double rate = alone;
  if (state.saving.is_flowing()) {
    const StorageRates beside = rates_now(here, state, {.write = kUnlimited, .read = own});
    const double bytes = step_bytes(input, step.shares);
    const double during = write_time(state, beside.write);
    rate = beside.read;
    step.write_ends = during * beside.read < bytes;
    if (step.write_ends) {
      rate = bytes / (during + (bytes - during * beside.read) / alone);
      rate = alone * std::exp(std::round(std::log(rate / alone) * kSteps) / kSteps);
    }
  }
  const Nanos slowed = to_nanos(readers_beside(step.input, input) * input.stored() / rate);
  step.read = rate < own ? std::max(input.read(), slowed) : input.read();
}

bool is_input_cut(const JobInWorld& here, const TrainingState& state) {
  return here.scenario().job().input().has_stored() &&
         state.faults.plan.storage(state.step, state.now) <= 0;
}

void renew_write_rate(const JobInWorld& here, TrainingState& state, Nanos step_length) {
  if (!state.saving.is_flowing()) return;
  const Input& input = here.scenario().job().input();
  const auto rate_beside = [&](double read) {
    return rates_now(here, state, {.write = kUnlimited, .read = read}).write;
  };
  double rate = rate_beside(0);
  if (input.has_stored() && step_length > 0 && state.conditions) {
    const double own = own_read_rate(state.conditions->input, input);
    const double mean =
        step_bytes(input, state.conditions->shares) / to_seconds(step_length);
    rate = rate_beside(state.conditions->write_ends ? own : std::min(own, mean));
  }
  state.saving.set_rate(rate * state.fit().graph().ranks(), state.now);
}

Nanos next_rate_change(const TrainingState& state) {
  if (!state.saving.is_flowing()) return kNever;
  return state.faults.plan.next_instant(state.now).value_or(kNever);
}

}  // namespace orrery::sim
