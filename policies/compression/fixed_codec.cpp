#include "policies/compression/fixed_codec.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/error.hpp"
#include "policies/compression/bucket_class.hpp"
#include "policies/seam/byte_archive.hpp"

namespace orrery {
namespace {

/// Limit of decisions on one job: a decision that fails so often will not succeed.
constexpr std::uint32_t kMostAsked = 4;

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
  return {.actions = Kinds<Action>::of<Configure>(), .settings = Kinds<Setting>::of<CodecRules>()};
}

void FixedCodec::start(Context&, const Cluster&, const google::protobuf::Message* parameters) {
  const auto* given = dynamic_cast<const FixedCodecParameters*>(parameters);
  ensure(given != nullptr, "the parameters are the policy's own");
  rules_ = rules_of(*given);
  warm_up_ = given->warm_up_steps();
  asked_.clear();
}

void FixedCodec::observe(Context&, const Observation& seen, DecisionList& decisions) {
  std::set<DecisionId> refused;
  for (const Event& event : seen.events) {
    const auto* outcome = std::get_if<Decided>(&event);
    const bool no = outcome != nullptr && outcome->status != Outcome::applied;
    if (no) refused.insert(outcome->decision);
  }
  for (const JobInfo& job : seen.jobs) {
    if (job.phase != JobPhase::running || job.layout.data < 2) {
      asked_.erase(job.spec.id);
      continue;
    }
    Asked& asked = asked_[job.spec.id];
    const bool again = refused.contains(asked.newest) && asked.times < kMostAsked;
    if (asked.times > 0 && !again) continue;
    ++asked.times;
    Decision& decision = decisions.add(
        Configure{job.spec.id, rules_},
        warm_up_ > 0 ? fmt::format("the scenario's codes, after {} steps of warm-up", warm_up_)
                     : std::string("the scenario's codes"));
    if (warm_up_ > job.step) decision.at_step = warm_up_;
    asked.newest = decision.id;
  }
  decisions.rest();
}

void FixedCodec::save(Archive& archive) const {
  ByteWriter write(archive);
  write(static_cast<std::uint64_t>(asked_.size()));
  for (const auto& [job, asked] : asked_) write(job), write(asked.newest), write(asked.times);
}

void FixedCodec::load(const Archive& archive) {
  ByteReader read(archive);
  std::map<JobId, Asked> asked;
  const std::size_t count = read.size();
  for (std::size_t i = 0; i < count; ++i) {
    JobId job;
    read(job);
    read(asked[job].newest), read(asked[job].times);
  }
  ensure(read.is_at_end(), "a saved policy state holds nothing else");
  asked_ = std::move(asked);
}

}  // namespace orrery
