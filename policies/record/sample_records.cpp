#include "policies/record/sample_records.hpp"

#include <cstdint>

#include <fmt/format.h>

#include "policies/record/wire.hpp"

namespace orrery {
using namespace wire;
namespace {

/// Returns false for a missing sample without a value, which then takes no bytes in the log.
bool worth_writing(const Sample<double>& sample) {
  return sample.is_known() || sample.value != 0 || sample.age != 0;
}

void encode(const Sample<double>& sample, SampleRecord& out) {
  out.set_value(sample.value);
  out.set_age(sample.age);
  out.set_origin(static_cast<std::uint32_t>(sample.origin));
}

Sample<double> decode(bool present, const SampleRecord& record) {
  if (!present) return {};
  if (record.origin() > 2) refuse(fmt::format("sample origin {} is unknown", record.origin()));
  return {record.value(), record.age(), static_cast<Origin>(record.origin())};
}

}  // namespace

DeviceSample decode(const DeviceRecord& record) {
  return {.gpu = {record.gpu()},
          .utilization = decode(record.has_utilization(), record.utilization()),
          .memory_bandwidth = decode(record.has_memory_bandwidth(), record.memory_bandwidth()),
          .memory_used = decode(record.has_memory_used(), record.memory_used()),
          .power = decode(record.has_power(), record.power())};
}

LinkSample decode(const LinkRecord& record) {
  return {.from = {record.from_gpu()},
          .to = {record.to_gpu()},
          .latency = decode(record.has_latency(), record.latency()),
          .bandwidth = decode(record.has_bandwidth(), record.bandwidth())};
}

void encode(const RankSample& sample, RankRecord& out) {
  out.set_job(sample.job.value);
  out.set_rank(sample.rank.value);
  out.set_step(sample.step);
  if (worth_writing(sample.micro_batches_done)) {
    encode(sample.micro_batches_done, *out.mutable_micro_batches_done());
  }
  if (worth_writing(sample.micro_batch_time)) {
    encode(sample.micro_batch_time, *out.mutable_micro_batch_time());
  }
  if (worth_writing(sample.wait_time)) encode(sample.wait_time, *out.mutable_wait_time());
  if (worth_writing(sample.gradient_variance)) {
    encode(sample.gradient_variance, *out.mutable_gradient_variance());
  }
  if (worth_writing(sample.noise_scale)) encode(sample.noise_scale, *out.mutable_noise_scale());
  if (worth_writing(sample.input_wait)) encode(sample.input_wait, *out.mutable_input_wait());
}

RankSample decode(const RankRecord& record) {
  return {
      .job = {record.job()},
      .rank = {record.rank()},
      .step = record.step(),
      .micro_batches_done = decode(record.has_micro_batches_done(), record.micro_batches_done()),
      .micro_batch_time = decode(record.has_micro_batch_time(), record.micro_batch_time()),
      .wait_time = decode(record.has_wait_time(), record.wait_time()),
      .gradient_variance = decode(record.has_gradient_variance(), record.gradient_variance()),
      .noise_scale = decode(record.has_noise_scale(), record.noise_scale()),
      .input_wait = decode(record.has_input_wait(), record.input_wait())};
}

void encode(const CollectiveSample& sample, CollectiveRecord& out) {
  out.set_job(sample.job.value);
  out.set_step(sample.step);
  out.set_kind(to_record<CollectiveKindRecord>(sample.kind));
  out.set_algorithm(to_record<CollectiveAlgorithmRecord>(sample.algorithm));
  out.set_bytes(sample.bytes);
  out.set_ranks(sample.ranks);
  out.set_exposed(sample.exposed);
}

CollectiveSample decode(const CollectiveRecord& record) {
  return {
      .job = {record.job()},
      .step = record.step(),
      .kind = to_enum<CollectiveKind>(record.kind(), CollectiveKindRecord_IsValid, "collective"),
      .algorithm = to_enum<CollectiveAlgorithm>(
          record.algorithm(), CollectiveAlgorithmRecord_IsValid, "collective algorithm"),
      .bytes = record.bytes(),
      .ranks = record.ranks(),
      .exposed = record.exposed()};
}

}  // namespace orrery
