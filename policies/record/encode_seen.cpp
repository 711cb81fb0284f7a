#include <algorithm>

#include <fmt/format.h>

#include "policies/record/encoding.hpp"
#include "policies/record/wire.hpp"

namespace orrery {
using namespace wire;

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
  out.set_title(job.title);
  out.set_qos(job.qos);
  out.set_submit_ns(job.submit);
  out.set_estimate_ns(job.estimate);
  out.set_priority(job.priority);
  out.set_gpus(job.gpus);
  out.set_least_gpus(job.least_gpus);
  out.set_most_gpus(job.most_gpus);
  for (const std::string& kind : job.gpu_kinds) out.add_gpu_kinds(kind);
  encode_layout(job.layout, *out.mutable_layout());
  out.set_micro_batches(job.micro_batches);
  out.set_max_micro_batches(job.max_micro_batches);
  out.set_max_workers(job.max_workers);
  out.set_max_prefetch(job.max_prefetch);
  out.set_steps(job.steps);
  out.set_nominal_micro_batch_time_ns(job.nominal_micro_batch_time);
  out.set_state_bytes(job.state.value);
  out.set_can(job.can.bits());
  out.set_can_change_layout(job.can_change_layout);
  for (const Setting& setting : job.settings) encode(setting, *out.add_settings());
}

JobSpec decode(const JobRecord& record) {
  JobSpec job{.id = {record.id()},
              .name = record.name(),
              .user = record.user(),
              .pool = record.pool(),
              .title = record.title(),
              .qos = record.qos(),
              .submit = record.submit_ns(),
              .estimate = record.estimate_ns(),
              .priority = record.priority(),
              .gpus = record.gpus(),
              .least_gpus = record.least_gpus(),
              .most_gpus = record.most_gpus(),
              .gpu_kinds = {record.gpu_kinds().begin(), record.gpu_kinds().end()},
              .layout = decode_layout(record.layout()),
              .micro_batches = record.micro_batches(),
              .max_micro_batches = record.max_micro_batches(),
              .max_workers = record.max_workers(),
              .max_prefetch = record.max_prefetch(),
              .steps = record.steps(),
              .nominal_micro_batch_time = record.nominal_micro_batch_time_ns(),
              .state = {record.state_bytes()},
              .can = Kinds<Setting>::from_bits(record.can()),
              .can_change_layout = record.can_change_layout(),
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
    out.mutable_job_done()->set_ran_ns(event.ran);
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
    if (event.intact) out.mutable_ranks_lost()->set_intact(*event.intact);
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
    for (const RankId rank : event.lost) record.add_lost(rank.value);
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
                     to_enum<Ending>(record.job_done().how(), EndingRecord_IsValid, "ending"),
                     record.job_done().ran_ns()};
    case EventRecord::kSaveDone:
      return decode(record.save_done());
    case EventRecord::kPartChanged:
      return decode(record.part_changed());
    case EventRecord::kRanksSuspected:
      return RanksSuspected{{record.ranks_suspected().job()},
                            decode_ids<RankId>(record.ranks_suspected().ranks())};
    case EventRecord::kRanksLost: {
      const RanksLostRecord& lost = record.ranks_lost();
      return RanksLost{{lost.job()},
                       decode_ids<RankId>(lost.ranks()),
                       {lost.epoch()},
                       lost.has_intact() ? std::optional<Step>(lost.intact()) : std::nullopt};
    }
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
      return JobStarted{{started.job()},
                        {started.epoch()},
                        started.from(),
                        decode(started.where()),
                        decode_ids<RankId>(started.lost())};
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
  events_.clear();
  events_.reserve(static_cast<std::size_t>(record.events_size()));
  for (const EventRecord& event : record.events()) events_.push_back(decode(event));
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
