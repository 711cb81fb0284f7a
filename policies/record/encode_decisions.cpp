#include <fmt/format.h>
#include <google/protobuf/descriptor.h>

#include "policies/record/encoding.hpp"
#include "policies/record/wire.hpp"

namespace orrery {
using namespace wire;

// ---- settings -----------------------------------------------------------------------------

void encode(const CollectiveTable& table, CollectiveTableRecord& out) {
  for (const CollectiveRule& each : table) {
    CollectiveRuleRecord& record = *out.add_rules();
    record.set_kind(to_record<CollectiveKindRecord>(each.kind));
    record.set_from_bytes(each.from_bytes);
    record.set_from_ranks(each.from_ranks);
    record.set_algorithm(to_record<CollectiveAlgorithmRecord>(each.algorithm));
    record.set_from_nodes(each.from_nodes);
  }
}

CollectiveTable decode(const CollectiveTableRecord& record) {
  CollectiveTable table;
  for (const CollectiveRuleRecord& each : record.rules()) {
    table.push_back(
        {to_enum<CollectiveKind>(each.kind(), CollectiveKindRecord_IsValid, "collective"),
         each.from_bytes(), each.from_ranks(),
         to_enum<CollectiveAlgorithm>(each.algorithm(), CollectiveAlgorithmRecord_IsValid,
                                      "collective algorithm"),
         each.from_nodes()});
  }
  return table;
}

void encode(const CodecRules& rules, CodecRulesRecord& out) {
  for (const CodecRule& each : rules) {
    CodecRuleRecord& record = *out.add_rules();
    record.set_bucket_class(each.bucket_class);
    record.set_codec(to_record<CodecNameRecord>(each.codec));
    record.set_parameter(each.parameter);
    record.set_error_feedback(each.error_feedback);
  }
}

CodecRules decode(const CodecRulesRecord& record) {
  CodecRules rules;
  for (const CodecRuleRecord& each : record.rules()) {
    rules.push_back({each.bucket_class(),
                     to_enum<Codec>(each.codec(), CodecNameRecord_IsValid, "codec"),
                     each.parameter(), each.error_feedback()});
  }
  return rules;
}

namespace {

struct SettingEncoder {
  SettingRecord& out;

  void operator()(const Shares& shares) const {
    out.mutable_shares()->mutable_per_replica()->Add(shares.per_replica.begin(),
                                                     shares.per_replica.end());
  }
  void operator()(const CollectiveTable& table) const {
    encode(table, *out.mutable_collective_table());
  }
  void operator()(const CodecRules& rules) const { encode(rules, *out.mutable_codec_rules()); }
  void operator()(const CheckpointPlan& plan) const {
    out.mutable_checkpoint_plan()->set_every_steps(plan.every_steps);
    out.mutable_checkpoint_plan()->set_tier(to_record<TierRecord>(plan.tier));
  }
  void operator()(const OnLoss& on_loss) const {
    out.mutable_on_loss()->set_response(to_record<LossResponseRecord>(on_loss.response));
  }
  void operator()(const Batch& batch) const {
    out.mutable_batch()->set_micro_batches(batch.micro_batches);
    out.mutable_batch()->set_learning_rate_factor(batch.learning_rate_factor);
  }
  void operator()(const Delay& delay) const { out.mutable_delay()->set_seconds(delay.seconds); }
  void operator()(const PowerCap& cap) const { out.mutable_power_cap()->set_watts(cap.watts); }
  void operator()(const Prefetch& prefetch) const {
    out.mutable_prefetch()->set_workers(prefetch.workers);
    out.mutable_prefetch()->set_depth(prefetch.depth);
  }
};

}  // namespace

void encode(const Setting& setting, SettingRecord& out) {
  std::visit(SettingEncoder{out}, setting);
}

Setting decode(const SettingRecord& record) {
  switch (record.kind_case()) {
    case SettingRecord::kShares:
      return Shares{{record.shares().per_replica().begin(), record.shares().per_replica().end()}};
    case SettingRecord::kCollectiveTable:
      return decode(record.collective_table());
    case SettingRecord::kCodecRules:
      return decode(record.codec_rules());
    case SettingRecord::kCheckpointPlan:
      return CheckpointPlan{
          record.checkpoint_plan().every_steps(),
          to_enum<Tier>(record.checkpoint_plan().tier(), TierRecord_IsValid, "tier")};
    case SettingRecord::kOnLoss:
      return OnLoss{to_enum<LossResponse>(record.on_loss().response(),
                                          LossResponseRecord_IsValid, "response to a loss")};
    case SettingRecord::kBatch: {
      const BatchRecord& batch = record.batch();
      const double factor = batch.has_learning_rate_factor() ? batch.learning_rate_factor()
                                                             : Batch().learning_rate_factor;
      return Batch{batch.micro_batches(), factor};
    }
    case SettingRecord::kDelay: return Delay{record.delay().seconds()};
    case SettingRecord::kPowerCap: return PowerCap{record.power_cap().watts()};
    case SettingRecord::kPrefetch:
      return Prefetch{record.prefetch().workers(), record.prefetch().depth()};
    case SettingRecord::KIND_NOT_SET:
      break;
  }
  refuse("a setting of an unknown kind");
}

// ---- decisions ----------------------------------------------------------------------------

namespace {

struct ActionEncoder {
  DecisionRecord& out;

  void operator()(const Assign& action) const {
    AssignRecord& record = *out.mutable_assign();
    record.set_job(action.job.value);
    if (action.is_release()) return;
    encode_runs(action.gpus, record.mutable_gpus());
    encode_layout(action.layout, *record.mutable_layout());
    record.set_state(to_record<StateFromRecord>(action.state));
  }
  void operator()(const Configure& action) const {
    out.mutable_configure()->set_job(action.job.value);
    encode(action.what, *out.mutable_configure()->mutable_what());
  }
  void operator()(const Save& action) const {
    out.mutable_save()->set_job(action.job.value);
    out.mutable_save()->set_tier(to_record<TierRecord>(action.tier));
  }
};

Action decode_action(const DecisionRecord& record) {
  switch (record.what_case()) {
    case DecisionRecord::kAssign:
      return Assign{{record.assign().job()}, decode_runs(record.assign().gpus()),
                    decode_layout(record.assign().layout()),
                    to_enum<StateFrom>(record.assign().state(), StateFromRecord_IsValid, "state")};
    case DecisionRecord::kConfigure:
      return Configure{{record.configure().job()}, decode(record.configure().what())};
    case DecisionRecord::kSave:
      return Save{{record.save().job()},
                  to_enum<Tier>(record.save().tier(), TierRecord_IsValid, "tier")};
    case DecisionRecord::WHAT_NOT_SET:
      break;
  }
  refuse("a decision of an unknown kind");
}

}  // namespace

void encode(const Decision& decision, DecisionRecord& out) {
  out.Clear();
  out.set_id(decision.id);
  std::visit(ActionEncoder{out}, decision.what);
  out.set_at_step(decision.at_step);
  if (decision.if_epoch) out.set_if_epoch(decision.if_epoch->value);
  out.set_expires(decision.expires);
  out.set_why(decision.why);
  out.set_group(decision.group);
}

Decision decode(const DecisionRecord& record) {
  Decision decision{.id = record.id(),
                    .what = decode_action(record),
                    .at_step = record.at_step(),
                    .expires = record.expires(),
                    .group = record.group(),
                    .why = record.why()};
  if (record.has_if_epoch()) decision.if_epoch = Epoch{record.if_epoch()};
  return decision;
}

void encode(const Needs& needs, NeedsRecord& out) {
  out.set_actions(needs.actions.bits());
  out.set_settings(needs.settings.bits());
  out.set_tick_ns(needs.tick);
  out.set_step_times(needs.step_times);
}

Needs decode(const NeedsRecord& record) {
  return {Kinds<Action>::from_bits(record.actions()), Kinds<Setting>::from_bits(record.settings()),
          record.tick_ns(), record.step_times(), record.gpu_kinds(), record.gpu_parts()};
}

void encode(const Note& note, NoteRecord& out) {
  out.set_key(note.key);
  if (const double* number = std::get_if<double>(&note.value)) {
    out.set_number(*number);
  } else {
    out.set_text(std::get<std::string>(note.value));
  }
}

Note decode(const NoteRecord& record) {
  if (record.has_number()) return {record.key(), record.number()};
  return {record.key(), record.text()};
}

// ---- the trace ----------------------------------------------------------------------------

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::string text_of(const Message& message);

/// Returns the name of an enumerator without the name of its enum: "HEALTH_LOST" becomes "lost".
std::string enumerator_text(const google::protobuf::EnumValueDescriptor& value) {
  std::string text = value.name().substr(value.name().find('_') + 1);
  for (char& c : text) c = static_cast<char>(c == '_' ? '-' : c >= 'A' && c <= 'Z' ? c + 32 : c);
  return text;
}

std::string value_text(const Message& message, const FieldDescriptor& field, int index) {
  const auto& reflection = *message.GetReflection();
  const bool many = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      return fmt::format("{}", many ? reflection.GetRepeatedUInt32(message, &field, index)
                                    : reflection.GetUInt32(message, &field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return fmt::format("{}", many ? reflection.GetRepeatedUInt64(message, &field, index)
                                    : reflection.GetUInt64(message, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return fmt::format("{}", many ? reflection.GetRepeatedDouble(message, &field, index)
                                    : reflection.GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(message, &field) ? "yes" : "no";
    case FieldDescriptor::CPPTYPE_ENUM:
      return enumerator_text(many ? *reflection.GetRepeatedEnum(message, &field, index)
                                  : *reflection.GetEnum(message, &field));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return text_of(many ? reflection.GetRepeatedMessage(message, &field, index)
                          : reflection.GetMessage(message, &field));
    default:
      return "?";
  }
}

/// Returns the names and values of the fields that differ from their defaults, in the order of the
/// schema; for a run of GPUs its ids, for example "0-3".
std::string text_of(const Message& message) {
  if (message.GetDescriptor() == GpuRunRecord::descriptor()) {
    const auto& run = static_cast<const GpuRunRecord&>(message);
    return run.count() == 1 ? fmt::format("{}", run.first())
                            : fmt::format("{}-{}", run.first(), run.first() + run.count() - 1);
  }
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  std::string text;
  for (const FieldDescriptor* field : fields) {
    if (field->name() == "job") continue;
    const bool flat = field->name() == "per_replica" || field->name() == "what";
    if (!text.empty()) text += ' ';
    if (!flat) text += field->name() + " ";
    const int count = field->is_repeated() ? message.GetReflection()->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const std::string value = value_text(message, *field, i);
      const bool bracketed = field->is_repeated() &&
                        field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
                        field->message_type() != GpuRunRecord::descriptor();
      text += bracketed ? "[" + value + "]" : (i > 0 ? " " : "") + value;
    }
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace

std::string trace_line(const Decision& decision) {
  DecisionRecord record;
  std::visit(ActionEncoder{record}, decision.what);
  const FieldDescriptor* what = record.GetReflection()->GetOneofFieldDescriptor(
      record, DecisionRecord::descriptor()->FindOneofByName("what"));
  return fmt::format("{}{{job {}: {}, step {}}}", action_name(decision.what),
                     job_of(decision.what).value,
                     text_of(record.GetReflection()->GetMessage(record, what)), decision.at_step);
}

std::string trace_line(const Decision& decision, const Observation& seen) {
  const JobInfo* job = seen.jobs.find(job_of(decision.what));
  const bool by_second =
      std::holds_alternative<Assign>(decision.what) && (job == nullptr || !job->spec.is_training());
  if (!by_second) return trace_line(decision);
  return fmt::format("{} at {} s", trace_line(decision), seen.now / kNanosPerSecond);
}

std::string describe_all(std::span<const Decision> decisions) {
  std::string text;
  for (const Decision& decision : decisions) {
    text += (text.empty() ? "" : "; ") + trace_line(decision);
    if (decision.group != 0) text += fmt::format(" in group {}", decision.group);
    if (decision.if_epoch) text += fmt::format(" if epoch {}", decision.if_epoch->value);
    if (decision.expires != kNever) {
      text += fmt::format(" until {} s", to_seconds(decision.expires));
    }
    if (!decision.why.empty()) text += fmt::format(" ('{}')", decision.why);
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace orrery
