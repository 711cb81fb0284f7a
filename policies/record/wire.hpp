// Helper functions of the conversions between structs and records. Only policies/record includes
// this header. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "policies/seam/event.hpp"
#include "traces/trace.pb.h"

namespace orrery::wire {

/// Throws bad_input with `message`.
[[noreturn]] inline void refuse(const std::string& message) {
  throw Error(ErrorKind::bad_input, message);
}

/// Returns the enumerator of a record for an enumerator of a struct; both enums have the same
/// numbers.
template <class Record, class Enum>
Record to_record(Enum value) {
  return static_cast<Record>(static_cast<int>(value));
}
/// Returns the enumerator of a struct for an enumerator of a record. `valid`: protobuf's
/// <Enum>_IsValid. Throws bad_input for a number without a name; `what` names the enum.
template <class Enum, class Record>
Enum to_enum(Record value, bool (*valid)(int), const char* what) {
  if (!valid(value)) refuse(fmt::format("{} {} is unknown", what, static_cast<int>(value)));
  return static_cast<Enum>(value);
}

/// Appends ids as numbers to `out`.
template <class IdType, class Repeated>
void encode_ids(const std::vector<IdType>& ids, Repeated* out) {
  out->Reserve(static_cast<int>(ids.size()));
  for (const IdType id : ids) out->Add(id.value);
}
/// Returns numbers as ids.
template <class IdType, class Repeated>
std::vector<IdType> decode_ids(const Repeated& values) {
  std::vector<IdType> ids;
  ids.reserve(static_cast<std::size_t>(values.size()));
  for (const auto value : values) ids.push_back(IdType{value});
  return ids;
}

/// Appends the runs of a list of GPUs to `out`.
template <class Repeated>
void encode_runs(const GpuRuns& gpus, Repeated* out) {
  for (const GpuRuns::Run& run : gpus.runs()) {
    auto* record = out->Add();
    record->set_first(run.first);
    record->set_count(run.count);
  }
}
/// Returns a list of GPUs. Throws bad_input for an empty run, for ids of 2^24 and more, and for
/// more than 2^24 GPUs, so that a damaged record cannot exhaust the memory.
template <class Repeated>
GpuRuns decode_runs(const Repeated& runs) {
  constexpr std::uint64_t kMostGpus = std::uint64_t{1} << 24;
  GpuRuns gpus;
  for (const auto& run : runs) {
    if (run.count() == 0 || std::uint64_t{run.first()} + run.count() > kMostGpus) {
      refuse(fmt::format("expected a run of at least one GPU with ids below 2^24, found {} GPUs "
                         "from GPU {} on",
                         run.count(), run.first()));
    }
    gpus.append_run({run.first(), run.count()});
    if (gpus.size() > kMostGpus) refuse("expected a list of at most 2^24 GPUs, found more");
  }
  return gpus;
}

/// Writes a layout into `out`.
inline void encode_layout(const ParallelLayout& layout, LayoutRecord& out) {
  out.set_tensor(layout.tensor);
  out.set_context(layout.context);
  out.set_pipeline(layout.pipeline);
  out.set_data(layout.data);
  out.set_pipeline_last(layout.pipeline_last);
}
/// Returns a layout; an absent size is 1, a size of 0 stays 0. Throws bad_input for sizes over
/// 2^20, and for replicas of more than 2^24 ranks.
inline ParallelLayout decode_layout(const LayoutRecord& record) {
  const std::uint32_t tensor = record.has_tensor() ? record.tensor() : 1;
  const std::uint32_t context = record.has_context() ? record.context() : 1;
  const std::uint32_t pipeline = record.has_pipeline() ? record.pipeline() : 1;
  if (record.tensor() > 1u << 20 || record.context() > 1u << 20 || record.pipeline() > 1u << 20 ||
      record.data() > 1u << 20 || std::uint64_t{tensor} * context * pipeline > 1u << 24) {
    refuse("expected a layout with sizes up to 2^20 and replicas of up to 2^24 ranks, found more");
  }
  return {.tensor = tensor,
          .context = context,
          .pipeline = pipeline,
          .data = record.has_data() ? record.data() : 1,
          .pipeline_last = record.pipeline_last()};
}

}  // namespace orrery::wire
