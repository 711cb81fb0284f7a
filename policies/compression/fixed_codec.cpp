#include "policies/compression/fixed_codec.hpp"

#include <algorithm>
#include <type_traits>
#include <variant>

#include <fmt/format.h>

#include "core/error.hpp"
#include "policies/compression/bucket_class.hpp"
#include "policies/scheduling/byte_archive.hpp"

namespace orrery {
namespace {

constexpr std::size_t kCodecIndex = 8;
static_assert(std::is_same_v<std::variant_alternative_t<kCodecIndex, Action>, SetCodec>);

/// Ranks that do not agree so often will not.
constexpr std::uint32_t kMostAsked = 4;

bool was_refused(std::span<const Event> events) {
  return std::any_of(events.begin(), events.end(), [](const Event& event) {
    const auto* outcome = std::get_if<DecisionOutcome>(&event);
    return outcome != nullptr && outcome->status != Outcome::applied;
  });
}

}  // namespace

std::vector<CodecRule> rules_of(const FixedCodecParameters& parameters) {
  std::vector<CodecRule> rules;
  for (const FixedCodecParameters::Rule& line : parameters.rules()) {
    std::string name = line.codec();
    std::replace(name.begin(), name.end(), '-', '_');
    const auto& names = kBucketClassNames;
    const auto found = std::find(names.begin(), names.end(), line.bucket_class());
    ensure(found != names.end(), "a name that the schema lets through");
    rules.push_back({.bucket_class = static_cast<std::uint32_t>(found - names.begin()),
                     .codec = codec_of_name(name),
                     .parameter = line.parameter(),
                     .error_feedback = line.error_feedback()});
    if (const std::string why = objection_to(rules.back()); !why.empty()) {
      throw Error(ErrorKind::bad_input, "policy 'fixed-codec': " + why);
    }
  }
  return rules;
}

Needs FixedCodec::needs() const {
  return {.signals = kJobs, .actions = action_bit(kCodecIndex), .tick_period = 0};
}

void FixedCodec::start(Context&, const Cluster&, const google::protobuf::Message* parameters) {
  const auto* given = dynamic_cast<const FixedCodecParameters*>(parameters);
  ensure(given != nullptr, "the parameters are the policy's own");
  rules_ = rules_of(*given);
  warm_up_ = given->warm_up_steps();
  asked_.clear();
}

void FixedCodec::observe(Context&, const Observation& seen, DecisionList& decisions) {
  const bool refused = was_refused(seen.events);
  for (const JobInfo& job : seen.jobs) {
    if (job.phase != JobPhase::running || job.spec.data < 2) {
      asked_.erase(job.spec.id);
      continue;
    }
    const auto found = asked_.find(job.spec.id);
    const bool again = found != asked_.end() && refused && job.codecs != rules_ &&
                       found->second < kMostAsked;
    if (found != asked_.end() && !again) continue;
    ++asked_[job.spec.id];
    Decision& decision = decisions.add(
        SetCodec{job.spec.id, rules_},
        warm_up_ > 0 ? fmt::format("the scenario's codes, after {} steps of warm-up", warm_up_)
                     : std::string("the scenario's codes"));
    if (warm_up_ > job.step) decision.effective_at_step = warm_up_;
  }
  decisions.rest();
}

void FixedCodec::save(Archive& archive) const {
  ByteWriter write(archive);
  write(static_cast<std::uint64_t>(asked_.size()));
  for (const auto& [job, times] : asked_) write(job), write(times);
}

void FixedCodec::load(const Archive& archive) {
  ByteReader read(archive);
  std::map<JobId, std::uint32_t> asked;
  const std::size_t count = read.size();
  for (std::size_t i = 0; i < count; ++i) {
    JobId job;
    read(job);
    read(asked[job]);
  }
  ensure(read.at_end(), "a saved policy state holds nothing else");
  asked_ = std::move(asked);
}

}  // namespace orrery
