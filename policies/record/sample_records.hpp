// Conversion between one sample of a rank, device, link or collective and its record. Summaries and
// collectives are stored so, and tables in logs of earlier formats. Only policies/record includes
// this header. Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "policies/seam/samples.hpp"
#include "traces/trace.pb.h"

namespace orrery {

/// The following functions write a sample into the empty record `out`.
void encode(const RankSample& sample, RankRecord& out);
void encode(const CollectiveSample& sample, CollectiveRecord& out);

/// The following functions return the sample of a record. They throw bad_input for an unknown
/// origin, collective or algorithm.
RankSample decode(const RankRecord& record);
DeviceSample decode(const DeviceRecord& record);
LinkSample decode(const LinkRecord& record);
CollectiveSample decode(const CollectiveRecord& record);

/// Appends the records of samples to `out`.
template <class SampleType, class Record>
void encode_all(std::span<const SampleType> samples,
                google::protobuf::RepeatedPtrField<Record>* out) {
  out->Reserve(static_cast<int>(samples.size()));
  for (const SampleType& sample : samples) encode(sample, *out->Add());
}

/// Returns the samples of records. Throws as decode().
template <class Struct, class Records>
std::vector<Struct> decode_all(const Records& records) {
  std::vector<Struct> out;
  out.reserve(static_cast<std::size_t>(records.size()));
  for (const auto& record : records) out.push_back(decode(record));
  return out;
}

}  // namespace orrery
