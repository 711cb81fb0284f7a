#include "policies/codec.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "policies/codec_detail.hpp"

namespace orrery {
using namespace codec_detail;
namespace {

// ---- samples ------------------------------------------------------------------------------

/// A missing sample without a value takes no bytes at all.
bool worth_writing(const Sample<double>& sample) {
  return sample.known() || sample.value != 0 || sample.age != 0;
}

void encode(const Sample<double>& sample, SampleRecord& out) {
  out.set_value(sample.value);
  out.set_age(sample.age);
  out.set_origin(number_of(sample.origin));
}

Sample<double> decode(bool present, const SampleRecord& record) {
  if (!present) return {};
  return {record.value(), record.age(), to_enum(record.origin(), Origin::missing, "sample origin")};
}

void encode(const DeviceSample& sample, DeviceRecord& out) {
  out.set_gpu(sample.gpu.value);
  if (worth_writing(sample.utilization)) encode(sample.utilization, *out.mutable_utilization());
  if (worth_writing(sample.memory_bandwidth)) {
    encode(sample.memory_bandwidth, *out.mutable_memory_bandwidth());
  }
  if (worth_writing(sample.memory_used)) encode(sample.memory_used, *out.mutable_memory_used());
  if (worth_writing(sample.power)) encode(sample.power, *out.mutable_power());
}

DeviceSample decode(const DeviceRecord& record) {
  return {.gpu = {record.gpu()},
          .utilization = decode(record.has_utilization(), record.utilization()),
          .memory_bandwidth = decode(record.has_memory_bandwidth(), record.memory_bandwidth()),
          .memory_used = decode(record.has_memory_used(), record.memory_used()),
          .power = decode(record.has_power(), record.power())};
}

void encode(const LinkSample& sample, LinkRecord& out) {
  out.set_from_gpu(sample.from.value);
  out.set_to_gpu(sample.to.value);
  if (worth_writing(sample.latency)) encode(sample.latency, *out.mutable_latency());
  if (worth_writing(sample.bandwidth)) encode(sample.bandwidth, *out.mutable_bandwidth());
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
}

RankSample decode(const RankRecord& record) {
  return {.job = {record.job()},
          .rank = {record.rank()},
          .step = record.step(),
          .micro_batches_done =
              decode(record.has_micro_batches_done(), record.micro_batches_done()),
          .micro_batch_time = decode(record.has_micro_batch_time(), record.micro_batch_time()),
          .wait_time = decode(record.has_wait_time(), record.wait_time()),
          .gradient_variance = decode(record.has_gradient_variance(), record.gradient_variance())};
}

void encode(const CollectiveSample& sample, CollectiveRecord& out) {
  out.set_job(sample.job.value);
  out.set_kind(number_of(sample.kind));
  out.set_algorithm(number_of(sample.algorithm));
  out.set_bytes(sample.bytes);
  out.set_ranks(sample.ranks);
  out.set_duration(sample.duration);
}

CollectiveSample decode(const CollectiveRecord& record) {
  return {.job = {record.job()},
          .kind = collective_kind(record.kind()),
          .algorithm = collective_algorithm(record.algorithm()),
          .bytes = record.bytes(),
          .ranks = record.ranks(),
          .duration = record.duration()};
}

// ---- events -------------------------------------------------------------------------------

void encode_job(const JobSpec& job, JobRecord& out) {
  out.set_id(job.id.value);
  out.set_name(job.name);
  out.set_pool(job.pool);
  out.set_submit(job.submit);
  out.set_gpus(job.gpus);
  out.set_duration(job.duration);
  out.set_tensor(job.tensor);
  out.set_context(job.context);
  out.set_pipeline(job.pipeline);
  out.set_pipeline_last(job.pipeline_last);
  out.set_data(job.data);
  out.set_micro_batches(job.micro_batches);
  out.set_max_micro_batches(job.max_micro_batches);
  out.set_steps(job.steps);
  out.set_nominal_micro_batch_time(job.nominal_micro_batch_time);
}

JobSpec decode_job(const JobRecord& record) {
  return {.id = {record.id()},
          .name = record.name(),
          .pool = record.pool(),
          .submit = record.submit(),
          .gpus = record.gpus(),
          .duration = record.duration(),
          .tensor = record.tensor(),
          .context = std::max(1u, record.context()),
          .pipeline = record.pipeline(),
          .data = record.data(),
          .pipeline_last = record.pipeline_last(),
          .micro_batches = record.micro_batches(),
          .max_micro_batches = record.max_micro_batches(),
          .steps = record.steps(),
          .nominal_micro_batch_time = record.nominal_micro_batch_time()};
}

template <class RankEvent>
void encode_rank_event(const RankEvent& event, RankEventRecord* out) {
  out->set_job(event.job.value);
  out->set_rank(event.rank.value);
}

struct EventEncoder {
  EventRecord& out;

  void operator()(const JobSubmitted& event) const {
    encode_job(event.job, *out.mutable_job_submitted());
    encode_ids(event.placed, out.mutable_job_submitted()->mutable_placed());
  }
  void operator()(const JobDone& event) const { out.set_job_done(event.job.value); }
  void operator()(const StepDone& event) const {
    out.mutable_step_done()->set_job(event.job.value);
    out.mutable_step_done()->set_step(event.step);
    out.mutable_step_done()->set_duration(event.duration);
  }
  void operator()(const RankSuspected& event) const {
    encode_rank_event(event, out.mutable_rank_suspected());
  }
  void operator()(const RankLost& event) const {
    encode_rank_event(event, out.mutable_rank_lost());
  }
  void operator()(const RankBack& event) const {
    encode_rank_event(event, out.mutable_rank_back());
  }
  void operator()(const LinkDown& event) const { out.set_link_down(event.link.value); }
  void operator()(const LinkUp& event) const { out.set_link_up(event.link.value); }
  void operator()(const CheckpointDone& event) const {
    out.mutable_checkpoint_done()->set_job(event.job.value);
    out.mutable_checkpoint_done()->set_step(event.step);
    out.mutable_checkpoint_done()->set_tier(event.tier);
  }
  void operator()(const DecisionOutcome& event) const {
    out.mutable_decision_outcome()->set_decision(event.decision);
    out.mutable_decision_outcome()->set_status(number_of(event.status));
    out.mutable_decision_outcome()->set_reason(event.reason);
  }
  void operator()(const Tick&) const { out.set_tick(true); }
};

template <class RankEvent>
RankEvent decode_rank_event(const RankEventRecord& record) {
  return {{record.job()}, {record.rank()}};
}

Event decode(const EventRecord& record) {
  switch (record.kind_case()) {
    case EventRecord::kJobSubmitted:
      return JobSubmitted{decode_job(record.job_submitted()),
                          decode_ids<GpuId>(record.job_submitted().placed())};
    case EventRecord::kJobDone:
      return JobDone{{record.job_done()}};
    case EventRecord::kStepDone:
      return StepDone{{record.step_done().job()}, record.step_done().step(),
                      record.step_done().duration()};
    case EventRecord::kRankSuspected:
      return decode_rank_event<RankSuspected>(record.rank_suspected());
    case EventRecord::kRankLost:
      return decode_rank_event<RankLost>(record.rank_lost());
    case EventRecord::kRankBack:
      return decode_rank_event<RankBack>(record.rank_back());
    case EventRecord::kLinkDown:
      return LinkDown{{record.link_down()}};
    case EventRecord::kLinkUp:
      return LinkUp{{record.link_up()}};
    case EventRecord::kCheckpointDone:
      return CheckpointDone{{record.checkpoint_done().job()}, record.checkpoint_done().step(),
                            record.checkpoint_done().tier()};
    case EventRecord::kDecisionOutcome: {
      const OutcomeRecord& outcome = record.decision_outcome();
      return DecisionOutcome{outcome.decision(),
                             to_enum(outcome.status(), Outcome::expired, "outcome"),
                             outcome.reason()};
    }
    case EventRecord::kTick:
      return Tick{};
    case EventRecord::KIND_NOT_SET:
      break;
  }
  refuse("an event of an unknown kind");
}

template <class Struct, class Records>
void decode_all(const Records& records, std::vector<Struct>& out) {
  out.clear();
  out.reserve(static_cast<std::size_t>(records.size()));
  for (const auto& record : records) out.push_back(decode(record));
}

}  // namespace

void encode(const Observation& seen, ObservationRecord& out) {
  out.Clear();
  out.set_now(seen.now);
  out.set_epoch(seen.epoch.value);
  out.set_sequence(seen.sequence);
  for (const Event& event : seen.events) std::visit(EventEncoder{*out.add_events()}, event);
  for (const DeviceSample& sample : seen.devices) encode(sample, *out.add_devices());
  for (const LinkSample& sample : seen.links) encode(sample, *out.add_links());
  for (const RankSample& sample : seen.ranks) encode(sample, *out.add_ranks());
  for (const CollectiveSample& sample : seen.collectives) encode(sample, *out.add_collectives());
}

Observation ObservationReader::read(const ObservationRecord& record) {
  decode_all(record.events(), events_);
  decode_all(record.devices(), devices_);
  decode_all(record.links(), links_);
  decode_all(record.ranks(), ranks_);
  decode_all(record.collectives(), collectives_);
  for (const Event& event : events_) {
    const std::string against = world_.objection(event);
    if (!against.empty()) refuse(against);
    world_.apply(event);
  }
  check_samples();
  return Observation{.now = record.now(),
                     .epoch = {record.epoch()},
                     .sequence = record.sequence(),
                     .events = events_,
                     .devices = devices_,
                     .links = links_,
                     .ranks = ranks_,
                     .collectives = collectives_,
                     .cluster = world_.cluster(),
                     .state = world_.state(),
                     .jobs = world_.jobs()};
}

void ObservationReader::check_samples() const {
  const std::uint32_t gpus = world_.cluster().gpus();
  const auto check_gpu = [gpus](GpuId gpu) {
    if (gpu.value >= gpus) refuse(fmt::format("a sample of GPU {} of {}", gpu.value, gpus));
  };
  const auto check_job = [this](JobId job) {
    if (job.value >= world_.jobs().size()) refuse(fmt::format("a sample of job {}", job.value));
  };
  for (const DeviceSample& sample : devices_) check_gpu(sample.gpu);
  for (const LinkSample& sample : links_) {
    check_gpu(sample.from);
    check_gpu(sample.to);
  }
  for (const RankSample& sample : ranks_) {
    check_job(sample.job);
    if (sample.rank.value >= world_.jobs()[sample.job.value].spec.gpus) {
      refuse(fmt::format("a sample of rank {} outside job {}", sample.rank.value,
                         sample.job.value));
    }
  }
  for (const CollectiveSample& sample : collectives_) check_job(sample.job);
}

}  // namespace orrery
