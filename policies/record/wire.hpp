// Helpers of the conversions between structs and records; only policies/record includes this.
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

/// Returns the record's enumerator; both enums have the same numbers.
template <class Record, class Enum>
Record to_record(Enum value) {
  return static_cast<Record>(static_cast<int>(value));
}
/// Returns the struct's enumerator. `valid` is protobuf's <Enum>_IsValid; throws bad_input on a
/// number without a name.
template <class Enum, class Record>
Enum to_enum(Record value, bool (*valid)(int), const char* what) {
  if (!valid(value)) refuse(fmt::format("{} {} is unknown", what, static_cast<int>(value)));
  return static_cast<Enum>(value);
}

/// Writes ids as numbers.
template <class IdType, class Repeated>
void encode_ids(const std::vector<IdType>& ids, Repeated* out) {
  out->Reserve(static_cast<int>(ids.size()));
  for (const IdType id : ids) out->Add(id.value);
}
/// Returns the ids of numbers.
template <class IdType, class Repeated>
std::vector<IdType> decode_ids(const Repeated& values) {
  std::vector<IdType> ids;
  ids.reserve(static_cast<std::size_t>(values.size()));
  for (const auto value : values) ids.push_back(IdType{value});
  return ids;
}

template <class Repeated>
void encode_runs(const GpuRuns& gpus, Repeated* out) {
  for (const GpuRuns::Run& run : gpus.runs()) {
    auto* record = out->Add();
    record->set_first(run.first);
    record->set_count(run.count);
  }
}
template <class Repeated>
GpuRuns decode_runs(const Repeated& runs) {
  constexpr std::uint64_t kMostGpus = std::uint64_t{1} << 24;
  GpuRuns gpus;
  for (const auto& run : runs) {
    if (run.count() == 0 || std::uint64_t{run.first()} + run.count() > kMostGpus) {
      refuse(fmt::format("a run of {} GPUs from {}", run.count(), run.first()));
    }
    gpus.append_run({run.first(), run.count()});
    if (gpus.size() > kMostGpus) refuse("more GPUs than there can be");
  }
  return gpus;
}

inline void encode_layout(const ParallelLayout& layout, LayoutRecord& out) {
  out.set_tensor(layout.tensor);
  out.set_context(layout.context);
  out.set_pipeline(layout.pipeline);
  out.set_data(layout.data);
  out.set_pipeline_last(layout.pipeline_last);
}
/// Absent, or a size left out: 1.
inline ParallelLayout decode_layout(const LayoutRecord& record) {
  const auto size = [](std::uint32_t given) { return std::max(given, 1u); };
  if (record.tensor() > 1u << 20 || record.context() > 1u << 20 || record.pipeline() > 1u << 20 ||
      record.data() > 1u << 20 ||
      std::uint64_t{size(record.tensor())} * size(record.context()) * size(record.pipeline()) >
          1u << 24) {
    refuse("a layout of more ranks than there can be");
  }
  return {.tensor = size(record.tensor()), .context = size(record.context()),
          .pipeline = size(record.pipeline()), .data = size(record.data()),
          .pipeline_last = record.pipeline_last()};
}

}  // namespace orrery::wire
