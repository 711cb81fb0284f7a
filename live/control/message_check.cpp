#include "live/control/message_check.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>

#include "core/error.hpp"
#include "traces/workload/collective.hpp"
#include "traces/workload/gradient_codec.hpp"

namespace orrery::live {
namespace {

constexpr std::size_t kMostAddressBytes = 512;
constexpr std::size_t kHashBytes = 64;
constexpr std::uint64_t kMostMicroBatches = 1'000'000'000;
constexpr double kMostSpeed = 1e6;

bool sane(std::initializer_list<double> amounts) {
  return std::all_of(amounts.begin(), amounts.end(),
                     [](double amount) { return std::isfinite(amount) && amount >= 0; });
}

bool not_negative(std::initializer_list<std::int64_t> durations) {
  return std::all_of(durations.begin(), durations.end(), [](auto each) { return each >= 0; });
}

bool fits(const StepReport& report) {
  return not_negative({report.duration(), report.compute(), report.work(), report.sending()}) &&
         std::isfinite(report.loss_sum()) &&
         sane({report.gather_used(), report.gather_read(), report.exchange_bytes(),
               report.own_square(), report.total_square()}) &&
         std::all_of(report.ops().begin(), report.ops().end(), [](const OpDone& op) {
           return OpPhase_IsValid(op.phase()) && op.duration() >= 0 && sane({op.bytes()}) &&
                  CollectiveAlgorithmRecord_IsValid(static_cast<int>(op.algorithm()));
         });
}

bool fits(const ProgressSample& sample) {
  const DeviceReading& device = sample.device();
  return sane({sample.micro_batches_done(), sample.bytes_moved(), device.utilization(),
               device.memory_bandwidth(), device.memory_used(), device.power()}) &&
         not_negative({sample.micro_batch_time(), sample.busy(), sample.cpu(), sample.round_trip(),
                       sample.elapsed()});
}

bool fits(const MemberStatus& status, const membership::Seat& from) {
  return status.from().rank() == from.rank && status.from().life() == from.life &&
         status.address().size() <= kMostAddressBytes;
}

bool fits(const Heartbeat& beat, const membership::Seat& from) {
  return fits(beat.status(), from) && fits(beat.progress());
}

bool fits(const ShardWritten& shard) {
  if (!shard.failure().empty()) return true;
  const std::string& hash = shard.sha256();
  return shard.size() > 0 && hash.size() == kHashBytes &&
         hash.find_first_not_of("0123456789abcdef") == std::string::npos;
}

bool known(std::uint32_t kind) {
  return kind >= static_cast<std::uint32_t>(ErrorKind::goal_missed) &&
         kind <= static_cast<std::uint32_t>(ErrorKind::internal);
}

bool ascending(const MemberDirective& said, std::uint32_t ranks) {
  std::int64_t before = -1;
  for (const Seat& member : said.members()) {
    if (member.rank() >= ranks || member.rank() <= before) return false;
    before = member.rank();
  }
  return true;
}

bool holds(const MemberDirective& said, std::uint32_t rank) {
  return std::any_of(said.members().begin(), said.members().end(),
                     [rank](const Seat& member) { return member.rank() == rank; });
}

bool possible(const CodecRuleRecord& record) {
  if (!CodecNameRecord_IsValid(record.codec())) return false;
  return record.bucket_class() < kBucketClasses && std::isfinite(record.parameter()) &&
         objection_to(
             {.codec = static_cast<Codec>(record.codec()), .parameter = record.parameter()})
             .empty();
}

bool exists(const CollectiveRuleRecord& rule) {
  return CollectiveKindRecord_IsValid(rule.kind()) &&
         CollectiveAlgorithmRecord_IsValid(rule.algorithm());
}

const char* fault_of(const StepPlan& plan, const MemberDirective& said) {
  if (plan.step() != said.committed()) return "expected a plan of the next step, found another";
  const bool fits = said.members_size() == 0 || plan.shares_size() == said.members_size();
  if (!fits || plan.shares_size() == 0) return "expected one share per member in a plan";
  std::uint64_t total = 0;
  for (const Share& share : plan.shares()) total += share.count();
  if (total > kMostMicroBatches) return "expected at most 1000000000 micro-batches in a plan";
  const bool codes = std::all_of(plan.codecs().begin(), plan.codecs().end(), possible);
  if (!codes) return "expected known gradient codecs in a plan";
  const auto& rules = plan.collectives().rules();
  const bool collectives = std::all_of(rules.begin(), rules.end(), exists);
  return collectives ? nullptr : "expected known collectives in a plan";
}

bool possible(const SaveShard& save, std::uint32_t ranks) {
  return save.attempt() != 0 && save.index() < save.count() && save.count() <= ranks;
}

bool possible(const Hardware& hardware) {
  return sane({hardware.speed(), hardware.link_rate()}) && hardware.speed() > 0 &&
         hardware.speed() <= kMostSpeed;
}

const char* fault_of(const MemberDirective& said, std::uint32_t rank, std::uint32_t ranks) {
  if (said.to().rank() != rank) return "expected a directive for this rank, found another";
  if (!ascending(said, ranks)) return "expected members among the run's ranks, in order";
  if (said.addresses_size() != said.members_size()) return "expected an address per member";
  if (said.members_size() > 0 && !holds(said, rank)) return "expected this rank as a member";
  if (said.members_size() > 0 && !holds(said, said.source())) {
    return "expected a member as the source of the state";
  }
  return said.work() ? fault_of(said.plan(), said) : nullptr;
}

}  // namespace

const char* fault_of(const AgentMessage& message, const membership::Seat& from) {
  switch (message.kind_case()) {
    case AgentMessage::KIND_NOT_SET: return "a message of no kind";
    case AgentMessage::kHello: return "expected one hello per stream, found a second";
    case AgentMessage::kReady: return nullptr;
    case AgentMessage::kStepReport:
      return fits(message.step_report()) ? nullptr : "expected finite amounts of at least 0";
    case AgentMessage::kHeartbeat:
      return fits(message.heartbeat(), from) ? nullptr : "expected this rank's heartbeat";
    case AgentMessage::kFinished:
      return message.finished().parameters_sha256().size() == kHashBytes
                 ? nullptr
                 : "expected a hash of 64 digits";
    case AgentMessage::kFailed:
      return known(message.failed().kind()) ? nullptr : "expected a known kind of failure";
    case AgentMessage::kStatus:
      return fits(message.status(), from) ? nullptr : "expected this process's status";
    case AgentMessage::kShard:
      return fits(message.shard()) ? nullptr : "expected a shard's size and hash";
  }
  return "a message of no kind";
}

const char* fault_of(const ControllerMessage& message, std::uint32_t rank, std::uint32_t ranks) {
  switch (message.kind_case()) {
    case ControllerMessage::KIND_NOT_SET: return "a message of no kind";
    case ControllerMessage::kAssignment: return nullptr;
    case ControllerMessage::kStop: return nullptr;
    case ControllerMessage::kDirective: return fault_of(message.directive(), rank, ranks);
    case ControllerMessage::kSave:
      return possible(message.save(), ranks) ? nullptr : "expected a possible shard";
    case ControllerMessage::kHardware:
      return possible(message.hardware()) ? nullptr : "expected a possible speed and rate";
  }
  return "a message of no kind";
}

}  // namespace orrery::live
