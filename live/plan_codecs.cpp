#include "live/plan_codecs.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace orrery::live {

void set_codecs(std::span<const CodecRule> rules, StepPlan& plan) {
  plan.clear_codecs();
  for (const CodecRule& rule : rules) {
    CodecRuleRecord& record = *plan.add_codecs();
    record.set_bucket_class(rule.bucket_class);
    record.set_codec(static_cast<std::uint32_t>(rule.codec));
    record.set_parameter(rule.parameter);
    record.set_error_feedback(rule.error_feedback);
  }
}

std::vector<CodecRule> codecs_of(const StepPlan& plan) {
  std::vector<CodecRule> rules;
  for (const CodecRuleRecord& record : plan.codecs()) {
    ensure(record.codec() <= static_cast<std::uint32_t>(Codec::power_sgd),
           "a plan names codes that there are");
    rules.push_back({.bucket_class = record.bucket_class(),
                     .codec = static_cast<Codec>(record.codec()),
                     .parameter = record.parameter(),
                     .error_feedback = record.error_feedback()});
  }
  return rules;
}

bool lossy(std::span<const CodecRule> rules) {
  return std::any_of(rules.begin(), rules.end(),
                     [](const CodecRule& rule) { return rule.codec != Codec::none; });
}

}  // namespace orrery::live
