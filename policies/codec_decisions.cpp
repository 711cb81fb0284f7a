#include <fmt/format.h>
#include <fmt/ranges.h>

#include "policies/codec.hpp"
#include "policies/codec_detail.hpp"
#include "policies/drive.hpp"

namespace orrery {
using namespace codec_detail;

CollectiveTableRecord encode_rules(JobId job, const CollectiveTable& rules) {
  CollectiveTableRecord out;
  out.set_job(job.value);
  for (const CollectiveRule& each : rules) {
    CollectiveRuleRecord& record = *out.add_rules();
    record.set_kind(number_of(each.kind));
    record.set_from_bytes(each.from_bytes);
    record.set_from_ranks(each.from_ranks);
    record.set_algorithm(number_of(each.algorithm));
    record.set_from_nodes(each.from_nodes);
  }
  return out;
}

CollectiveTable decode_rules(const CollectiveTableRecord& record) {
  CollectiveTable table;
  for (const CollectiveRuleRecord& each : record.rules()) {
    table.push_back({collective_kind(each.kind()), each.from_bytes(), each.from_ranks(),
                     collective_algorithm(each.algorithm()), each.from_nodes()});
  }
  return table;
}

namespace {

struct ActionEncoder {
  DecisionRecord& out;

  void operator()(const PlaceJob& action) const {
    out.mutable_place_job()->set_job(action.job.value);
    encode_ids(action.gpus, out.mutable_place_job()->mutable_gpus());
  }
  void operator()(const Preempt& action) const {
    out.mutable_preempt()->set_job(action.job.value);
    out.mutable_preempt()->set_checkpoint(action.checkpoint);
  }
  void operator()(const ShiftMicrobatches& action) const {
    ShiftRecord& shift = *out.mutable_shift_microbatches();
    shift.set_job(action.job.value);
    shift.mutable_per_replica()->Add(action.per_replica.begin(), action.per_replica.end());
  }
  void operator()(const SetAccumulation& action) const {
    out.mutable_set_accumulation()->set_job(action.job.value);
    out.mutable_set_accumulation()->set_micro_batches(action.micro_batches);
  }
  void operator()(const SetLayout& action) const {
    LayoutRecord& layout = *out.mutable_set_layout();
    layout.set_job(action.job.value);
    layout.set_tensor(action.tensor);
    layout.set_pipeline(action.pipeline);
    layout.set_data(action.data);
  }
  void operator()(const SetBuckets& action) const {
    out.mutable_set_buckets()->set_job(action.job.value);
    out.mutable_set_buckets()->set_bytes(action.size.value);
  }
  void operator()(const Prefetch& action) const {
    out.mutable_prefetch()->set_job(action.job.value);
    out.mutable_prefetch()->set_depth(action.depth);
  }
  void operator()(const SetCollectiveTable& action) const {
    *out.mutable_set_collective_table() = encode_rules(action.job, action.rules);
  }
  void operator()(const SetCodec& action) const {
    out.mutable_set_codec()->set_job(action.job.value);
    for (const CodecRule& rule : action.rules) {
      CodecRuleRecord& record = *out.mutable_set_codec()->add_rules();
      record.set_bucket_class(rule.bucket_class);
      record.set_codec(number_of(rule.codec));
      record.set_parameter(rule.parameter);
      record.set_error_feedback(rule.error_feedback);
    }
  }
  void operator()(const SetCheckpoint& action) const {
    out.mutable_set_checkpoint()->set_job(action.job.value);
    out.mutable_set_checkpoint()->set_interval(action.interval);
    out.mutable_set_checkpoint()->set_tier(number_of(action.tier));
  }
  void operator()(const Recover& action) const {
    RecoverRecord& recover = *out.mutable_recover();
    recover.set_job(action.job.value);
    recover.set_how(number_of(action.how));
    encode_ids(action.exclude, recover.mutable_exclude());
    if (action.spare) recover.set_spare_gpu(action.spare->value);
    recover.set_state_from(number_of(action.state_from));
  }
  void operator()(const SetPowerCap& action) const {
    out.mutable_set_power_cap()->set_gpu(action.gpu.value);
    out.mutable_set_power_cap()->set_watts(action.cap.value);
  }
  void operator()(const WakeMe& action) const { out.mutable_wake_me()->set_at(action.at); }
};

Action decode_table(const CollectiveTableRecord& record) {
  return SetCollectiveTable{.job = {record.job()}, .rules = decode_rules(record)};
}

Action decode_codec(const CodecRecord& record) {
  SetCodec codec{.job = {record.job()}, .rules = {}};
  for (const CodecRuleRecord& rule : record.rules()) {
    codec.rules.push_back({rule.bucket_class(), to_enum(rule.codec(), Codec::power_sgd, "codec"),
                           rule.parameter(), rule.error_feedback()});
  }
  return codec;
}

Action decode_recover(const RecoverRecord& record) {
  Recover recover{.job = {record.job()},
                  .how = to_enum(record.how(), Recovery::wait, "recovery"),
                  .exclude = decode_ids<RankId>(record.exclude()),
                  .spare = {},
                  .state_from = to_enum(record.state_from(), StateSource::checkpoint, "source")};
  if (record.has_spare_gpu()) recover.spare = GpuId{record.spare_gpu()};
  return recover;
}

Action decode_action(const DecisionRecord& record) {
  switch (record.what_case()) {
    case DecisionRecord::kPlaceJob:
      return PlaceJob{{record.place_job().job()}, decode_ids<GpuId>(record.place_job().gpus())};
    case DecisionRecord::kPreempt:
      return Preempt{{record.preempt().job()}, record.preempt().checkpoint()};
    case DecisionRecord::kShiftMicrobatches: {
      const ShiftRecord& shift = record.shift_microbatches();
      return ShiftMicrobatches{{shift.job()},
                               {shift.per_replica().begin(), shift.per_replica().end()}};
    }
    case DecisionRecord::kSetAccumulation:
      return SetAccumulation{{record.set_accumulation().job()},
                             record.set_accumulation().micro_batches()};
    case DecisionRecord::kSetLayout: {
      const LayoutRecord& layout = record.set_layout();
      return SetLayout{{layout.job()}, layout.tensor(), layout.pipeline(), layout.data()};
    }
    case DecisionRecord::kSetBuckets:
      return SetBuckets{{record.set_buckets().job()}, {record.set_buckets().bytes()}};
    case DecisionRecord::kPrefetch:
      return Prefetch{{record.prefetch().job()}, record.prefetch().depth()};
    case DecisionRecord::kSetCollectiveTable:
      return decode_table(record.set_collective_table());
    case DecisionRecord::kSetCodec:
      return decode_codec(record.set_codec());
    case DecisionRecord::kSetCheckpoint: {
      const CheckpointPlanRecord& plan = record.set_checkpoint();
      return SetCheckpoint{{plan.job()}, plan.interval(),
                           to_enum(plan.tier(), CheckpointTier::storage, "checkpoint tier")};
    }
    case DecisionRecord::kRecover:
      return decode_recover(record.recover());
    case DecisionRecord::kSetPowerCap:
      return SetPowerCap{{record.set_power_cap().gpu()}, {record.set_power_cap().watts()}};
    case DecisionRecord::kWakeMe:
      return WakeMe{record.wake_me().at()};
    case DecisionRecord::WHAT_NOT_SET:
      break;
  }
  refuse("a decision of an unknown kind");
}

}  // namespace

void encode(const Decision& decision, DecisionRecord& out) {
  out.Clear();
  out.set_number(decision.number);
  std::visit(ActionEncoder{out}, decision.what);
  out.set_effective_at_step(decision.effective_at_step);
  if (decision.if_epoch) out.set_if_epoch(decision.if_epoch->value);
  out.set_expires(decision.expires);
  out.set_why(decision.why);
}

Decision decode(const DecisionRecord& record) {
  Decision decision{.number = record.number(),
                    .what = decode_action(record),
                    .effective_at_step = record.effective_at_step(),
                    .expires = record.expires(),
                    .why = record.why()};
  if (record.has_if_epoch()) decision.if_epoch = Epoch{record.if_epoch()};
  return decision;
}

namespace {

/// What follows the kind in a trace line: "job 0: 13 13 1 13".
struct ActionText {
  std::string operator()(const PlaceJob& action) const {
    return of_job(action.job, fmt::format("{}", fmt::join(values(action.gpus), " ")));
  }
  std::string operator()(const Preempt& action) const {
    return of_job(action.job, action.checkpoint ? "with checkpoint" : "without checkpoint");
  }
  std::string operator()(const ShiftMicrobatches& action) const {
    return of_job(action.job, fmt::format("{}", fmt::join(action.per_replica, " ")));
  }
  std::string operator()(const SetAccumulation& action) const {
    return of_job(action.job, fmt::format("{}", action.micro_batches));
  }
  std::string operator()(const SetLayout& action) const {
    return of_job(action.job, fmt::format("tensor {} pipeline {} data {}", action.tensor,
                                          action.pipeline, action.data));
  }
  std::string operator()(const SetBuckets& action) const {
    return of_job(action.job, fmt::format("{} bytes", action.size.value));
  }
  std::string operator()(const Prefetch& action) const {
    return of_job(action.job, fmt::format("{}", action.depth));
  }
  std::string operator()(const SetCollectiveTable& action) const {
    std::string rules;
    for (const CollectiveRule& rule : action.rules) {
      rules += fmt::format("[{} from {} bytes {} ranks {} nodes: {}]", number_of(rule.kind),
                           rule.from_bytes, rule.from_ranks, rule.from_nodes,
                           number_of(rule.algorithm));
    }
    return of_job(action.job, rules);
  }
  std::string operator()(const SetCodec& action) const {
    std::string rules;
    for (const CodecRule& rule : action.rules) {
      rules += fmt::format("[class {}: {} parameter {} feedback {}]", rule.bucket_class,
                           number_of(rule.codec), rule.parameter, rule.error_feedback);
    }
    return of_job(action.job, rules);
  }
  std::string operator()(const SetCheckpoint& action) const {
    return of_job(action.job, fmt::format("every {} s to tier {}", to_seconds(action.interval),
                                          number_of(action.tier)));
  }
  std::string operator()(const Recover& action) const {
    const std::string spare = action.spare ? fmt::format("{}", action.spare->value) : "none";
    return of_job(action.job, fmt::format("how {} without {} spare {} from {}",
                                          number_of(action.how),
                                          fmt::join(values(action.exclude), " "), spare,
                                          number_of(action.state_from)));
  }
  std::string operator()(const SetPowerCap& action) const {
    return fmt::format("GPU {}: {} W", action.gpu.value, action.cap.value);
  }
  std::string operator()(const WakeMe& action) const {
    return fmt::format("at {} s", to_seconds(action.at));
  }

  static std::string of_job(JobId job, const std::string& parameters) {
    return fmt::format("job {}: {}", job.value, parameters);
  }
  template <class IdType>
  static std::vector<std::uint32_t> values(const std::vector<IdType>& ids) {
    std::vector<std::uint32_t> out;
    for (const IdType id : ids) out.push_back(id.value);
    return out;
  }
};

}  // namespace

std::string trace_line(const Decision& decision) {
  return fmt::format("{}{{{}, step {}}}", action_name(decision.what),
                     std::visit(ActionText{}, decision.what), decision.effective_at_step);
}

std::string trace_line(const Decision& decision, Nanos now) {
  const Action& what = decision.what;
  if (std::holds_alternative<WakeMe>(what)) return {};
  const bool of_whole_job =
      std::holds_alternative<PlaceJob>(what) || std::holds_alternative<Preempt>(what);
  if (!of_whole_job) return trace_line(decision);
  return fmt::format("{} at {} s", trace_line(decision), now / kNanosPerSecond);
}

}  // namespace orrery
