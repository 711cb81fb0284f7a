#include <algorithm>

#include <fmt/format.h>

#include "policies/record/encoding.hpp"
#include "policies/record/wire.hpp"

namespace orrery {
using namespace wire;
namespace {

// ---- samples ------------------------------------------------------------------------------

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
  if (worth_writing(sample.noise_scale)) encode(sample.noise_scale, *out.mutable_noise_scale());
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
      .noise_scale = decode(record.has_noise_scale(), record.noise_scale())};
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
  return {.job = {record.job()},
          .step = record.step(),
          .kind = to_enum<CollectiveKind>(record.kind(), CollectiveKindRecord_IsValid,
                                          "collective"),
          .algorithm = to_enum<CollectiveAlgorithm>(
              record.algorithm(), CollectiveAlgorithmRecord_IsValid, "collective algorithm"),
          .bytes = record.bytes(),
          .ranks = record.ranks(),
          .exposed = record.exposed()};
}

template <class SampleType, class Record>
void encode_all(std::span<const SampleType> samples,
                google::protobuf::RepeatedPtrField<Record>* out) {
  out->Reserve(static_cast<int>(samples.size()));
  for (const SampleType& sample : samples) encode(sample, *out->Add());
}

template <class Struct, class Records>
void decode_all(const Records& records, std::vector<Struct>& out) {
  out.clear();
  out.reserve(static_cast<std::size_t>(records.size()));
  for (const auto& record : records) out.push_back(decode(record));
}

}  // namespace

SamplesRead read_samples(Samples& samples, const SamplesRead& wish) {
  SamplesRead read;
  read_samples(samples, wish, read);
  return read;
}

void read_samples(Samples& samples, const SamplesRead& wish, SamplesRead& read) {
  read.set_what(wish.what());
  read.set_job(wish.job());
  read.set_latest(wish.latest());
  const JobId job{wish.job()};
  if (wish.what() == SamplesRead::RANKS) encode_all(samples.ranks(job), read.mutable_ranks());
  if (wish.what() == SamplesRead::DEVICES) encode_all(samples.devices(job), read.mutable_devices());
  if (wish.what() == SamplesRead::LINKS) encode_all(samples.links(job), read.mutable_links());
  if (wish.what() == SamplesRead::COLLECTIVES) {
    encode_all(samples.collectives(job), read.mutable_collectives());
  }
  if (wish.what() != SamplesRead::SUMMARY) return;
  const RankSummary summary = samples.summary(job, wish.latest());
  RankSummaryRecord& out = *read.mutable_summary();
  out.set_ranks(summary.ranks);
  out.set_micro_batch_time(summary.micro_batch_time);
  out.set_deviation(summary.deviation);
  out.set_age(summary.age);
  encode_all(summary.latest, out.mutable_latest());
}

void SamplesBook::add(const SamplesRead& read) {
  auto page = std::make_unique<Page>();
  page->what = read.what();
  page->job = {read.job()};
  page->asked = read.latest();
  decode_all(read.ranks(), page->ranks);
  decode_all(read.devices(), page->devices);
  decode_all(read.links(), page->links);
  decode_all(read.collectives(), page->collectives);
  if (read.has_summary()) {
    const RankSummaryRecord& summary = read.summary();
    decode_all(summary.latest(), page->ranks);
    page->summary = {.ranks = summary.ranks(),
                     .micro_batch_time = summary.micro_batch_time(),
                     .deviation = summary.deviation(),
                     .age = summary.age(),
                     .latest = page->ranks};
  }
  pages_.push_back(std::move(page));
}

const SamplesBook::Page& SamplesBook::page(SamplesRead::What what, JobId job,
                                           std::uint32_t latest) {
  const auto find = [&]() -> const Page* {
    for (const auto& page : pages_) {
      if (page->what == what && page->job == job && page->asked == latest) return page.get();
    }
    return nullptr;
  };
  if (const Page* known = find()) return *known;
  SamplesRead wish;
  wish.set_what(what);
  wish.set_job(job.value);
  wish.set_latest(latest);
  fetch_samples(wish);
  const Page* fetched = find();
  static const Page nothing;
  return fetched == nullptr ? nothing : *fetched;
}

RankSummary SamplesBook::summary(JobId job, std::uint32_t latest) {
  return page(SamplesRead::SUMMARY, job, latest).summary;
}
std::span<const RankSample> SamplesBook::ranks(JobId job) {
  return page(SamplesRead::RANKS, job).ranks;
}
std::span<const DeviceSample> SamplesBook::devices(JobId job) {
  return page(SamplesRead::DEVICES, job).devices;
}
std::span<const LinkSample> SamplesBook::links(JobId job) {
  return page(SamplesRead::LINKS, job).links;
}
std::span<const CollectiveSample> SamplesBook::collectives(JobId job) {
  return page(SamplesRead::COLLECTIVES, job).collectives;
}

// ---- events -------------------------------------------------------------------------------

void encode(const Standing& where, StandingRecord& out) {
  encode_runs(where.gpus, out.mutable_gpus());
  encode_layout(where.layout, *out.mutable_layout());
}

Standing decode(const StandingRecord& record) {
  return {decode_runs(record.gpus()), decode_layout(record.layout())};
}

void encode(const JobSpec& job, JobRecord& out) {
  out.set_id(job.id.value);
  out.set_name(job.name);
  out.set_user(job.user);
  out.set_pool(job.pool);
  out.set_submit_ns(job.submit);
  out.set_estimate_ns(job.estimate);
  out.set_priority(job.priority);
  out.set_gpus(job.gpus);
  out.set_least_gpus(job.least_gpus);
  out.set_most_gpus(job.most_gpus);
  encode_layout(job.layout, *out.mutable_layout());
  out.set_micro_batches(job.micro_batches);
  out.set_max_micro_batches(job.max_micro_batches);
  out.set_steps(job.steps);
  out.set_nominal_micro_batch_time_ns(job.nominal_micro_batch_time);
  out.set_state_bytes(job.state.value);
  out.set_can(job.can.bits());
  for (const Setting& setting : job.settings) encode(setting, *out.add_settings());
}

JobSpec decode(const JobRecord& record) {
  JobSpec job{.id = {record.id()},
              .name = record.name(),
              .user = record.user(),
              .pool = record.pool(),
              .submit = record.submit_ns(),
              .estimate = record.estimate_ns(),
              .priority = record.priority(),
              .gpus = record.gpus(),
              .least_gpus = record.least_gpus(),
              .most_gpus = record.most_gpus(),
              .layout = decode_layout(record.layout()),
              .micro_batches = record.micro_batches(),
              .max_micro_batches = record.max_micro_batches(),
              .steps = record.steps(),
              .nominal_micro_batch_time = record.nominal_micro_batch_time_ns(),
              .state = {record.state_bytes()},
              .can = Kinds<Setting>::from_bits(record.can()),
              .settings = {}};
  for (const SettingRecord& setting : record.settings()) job.settings.push_back(decode(setting));
  return job;
}

namespace {

struct EventEncoder {
  EventRecord& out;

  void operator()(const StepsDone& event) const {
    StepsDoneRecord& record = *out.mutable_steps_done();
    record.set_job(event.job.value);
    record.set_last(event.last);
    record.set_count(event.count);
    record.set_duration_ns(event.duration);
  }
  void operator()(const JobDone& event) const {
    out.mutable_job_done()->set_job(event.job.value);
    out.mutable_job_done()->set_how(to_record<EndingRecord>(event.how));
  }
  void operator()(const SaveDone& event) const {
    SaveDoneRecord& record = *out.mutable_save_done();
    record.set_job(event.job.value);
    record.set_step(event.step);
    record.set_tier(to_record<TierRecord>(event.tier));
    record.set_stalled_ns(event.stalled);
    record.set_took_ns(event.took);
    record.set_durable(event.durable);
    for (const CopyHolders& shard : event.holders) {
      record.add_nodes(shard.node.value);
      record.add_peers(shard.peer.value);
    }
  }
  void operator()(const PartChanged& event) const {
    PartChangedRecord& record = *out.mutable_part_changed();
    record.set_kind(to_record<PartKindRecord>(event.part.kind));
    record.set_index(event.part.index);
    record.set_health(to_record<HealthRecord>(event.to.health));
    record.set_rate(event.to.rate);
    if (!event.to.removal) return;
    const Removal& removal = *event.to.removal;
    if (removal.at) record.set_removed_at_ns(*removal.at);
    if (removal.at_step) record.set_removed_at_step(*removal.at_step);
    if (removal.back_at) record.set_back_at_ns(*removal.back_at);
    if (removal.back_at_step) record.set_back_at_step(*removal.back_at_step);
  }
  void operator()(const RanksSuspected& event) const {
    out.mutable_ranks_suspected()->set_job(event.job.value);
    encode_ids(event.ranks, out.mutable_ranks_suspected()->mutable_ranks());
  }
  void operator()(const RanksLost& event) const {
    out.mutable_ranks_lost()->set_job(event.job.value);
    encode_ids(event.ranks, out.mutable_ranks_lost()->mutable_ranks());
    out.mutable_ranks_lost()->set_epoch(event.epoch.value);
  }
  void operator()(const JobHeld& event) const { out.mutable_job_held()->set_job(event.job.value); }
  void operator()(const JobSubmitted& event) const {
    encode(event.job, *out.mutable_job_submitted()->mutable_job());
  }
  void operator()(const Decided& event) const {
    out.mutable_decided()->set_decision(event.decision);
    out.mutable_decided()->set_status(to_record<OutcomeStatusRecord>(event.status));
    out.mutable_decided()->set_reason(event.reason);
  }
  void operator()(const JobStopped& event) const {
    out.mutable_job_stopped()->set_job(event.job.value);
    out.mutable_job_stopped()->set_kept(event.kept);
  }
  void operator()(const JobStarted& event) const {
    JobStartedRecord& record = *out.mutable_job_started();
    record.set_job(event.job.value);
    record.set_epoch(event.epoch.value);
    record.set_from(event.from);
    encode(event.where, *record.mutable_where());
  }
  void operator()(const ParameterSet& event) const {
    ParameterSetRecord& record = *out.mutable_parameter_set();
    record.set_policy(event.policy);
    record.set_parameter(event.parameter);
    record.set_value(event.value);
  }
  void operator()(const Tick&) const { out.mutable_tick(); }
};

Event decode(const SaveDoneRecord& record) {
  SaveDone event{.job = {record.job()},
                 .step = record.step(),
                 .tier = to_enum<Tier>(record.tier(), TierRecord_IsValid, "tier"),
                 .stalled = record.stalled_ns(),
                 .took = record.took_ns(),
                 .durable = record.durable()};
  if (record.nodes_size() != record.peers_size()) {
    refuse(fmt::format("expected a peer for each of the {} nodes of a checkpoint, found {}",
                       record.nodes_size(), record.peers_size()));
  }
  for (int shard = 0; shard < record.nodes_size(); ++shard) {
    event.holders.push_back({{record.nodes(shard)}, {record.peers(shard)}});
  }
  return event;
}

std::optional<Removal> decode_removal(const PartChangedRecord& record) {
  if (!record.has_removed_at_ns() && !record.has_removed_at_step()) return {};
  Removal removal;
  if (record.has_removed_at_ns()) removal.at = record.removed_at_ns();
  if (record.has_removed_at_step()) removal.at_step = record.removed_at_step();
  if (record.has_back_at_ns()) removal.back_at = record.back_at_ns();
  if (record.has_back_at_step()) removal.back_at_step = record.back_at_step();
  return removal;
}

Event decode(const PartChangedRecord& record) {
  return PartChanged{
      .part = {to_enum<PartKind>(record.kind(), PartKindRecord_IsValid, "kind of part"),
               record.index()},
      .to = {.health = to_enum<Health>(record.health(), HealthRecord_IsValid, "health"),
             .rate = record.rate(),
             .removal = decode_removal(record)}};
}

Event decode(const DecidedRecord& record) {
  return Decided{record.decision(),
                 to_enum<Outcome>(record.status(), OutcomeStatusRecord_IsValid, "outcome"),
                 record.reason()};
}

}  // namespace

void encode(const Event& event, EventRecord& out) { std::visit(EventEncoder{out}, event); }

Event decode(const EventRecord& record) {
  switch (record.kind_case()) {
    case EventRecord::kStepsDone: {
      const StepsDoneRecord& done = record.steps_done();
      return StepsDone{{done.job()}, done.last(), done.count(), done.duration_ns()};
    }
    case EventRecord::kJobDone:
      return JobDone{{record.job_done().job()},
                     to_enum<Ending>(record.job_done().how(), EndingRecord_IsValid, "ending")};
    case EventRecord::kSaveDone:
      return decode(record.save_done());
    case EventRecord::kPartChanged:
      return decode(record.part_changed());
    case EventRecord::kRanksSuspected:
      return RanksSuspected{{record.ranks_suspected().job()},
                            decode_ids<RankId>(record.ranks_suspected().ranks())};
    case EventRecord::kRanksLost:
      return RanksLost{{record.ranks_lost().job()},
                       decode_ids<RankId>(record.ranks_lost().ranks()),
                       {record.ranks_lost().epoch()}};
    case EventRecord::kJobHeld:
      return JobHeld{{record.job_held().job()}};
    case EventRecord::kJobSubmitted:
      return JobSubmitted{decode(record.job_submitted().job())};
    case EventRecord::kDecided:
      return decode(record.decided());
    case EventRecord::kJobStopped:
      return JobStopped{{record.job_stopped().job()}, record.job_stopped().kept()};
    case EventRecord::kJobStarted: {
      const JobStartedRecord& started = record.job_started();
      return JobStarted{{started.job()}, {started.epoch()}, started.from(),
                        decode(started.where())};
    }
    case EventRecord::kParameterSet:
      return ParameterSet{record.parameter_set().policy(), record.parameter_set().parameter(),
                          record.parameter_set().value()};
    case EventRecord::kTick:
      return Tick{};
    case EventRecord::KIND_NOT_SET:
      break;
  }
  refuse("an event of an unknown kind");
}

void encode(const Observation& seen, ObservationRecord& out) {
  out.Clear();
  out.set_now(seen.now);
  out.set_sequence(seen.sequence);
  for (const Event& event : seen.events) encode(event, *out.add_events());
  out.set_resting(seen.resting);
}

Observation ObservationReader::read(const ObservationRecord& record, Samples& samples) {
  decode_all(record.events(), events_);
  world_.begin_batch();
  for (const Event& event : events_) {
    const std::string why = world_.objection(event);
    if (!why.empty()) refuse(why);
    world_.apply(event, record.now());
  }
  return Observation{.now = record.now(),
                     .sequence = record.sequence(),
                     .events = events_,
                     .cluster = world_.cluster(),
                     .state = world_.state(),
                     .jobs = world_.jobs(),
                     .samples = samples,
                     .resting = record.resting()};
}

}  // namespace orrery
