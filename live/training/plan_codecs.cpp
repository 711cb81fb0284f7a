#include "live/training/plan_codecs.hpp"

#include <algorithm>
#include <utility>

#include "policies/record/encoding.hpp"

namespace orrery::live {

void set_codecs(const CodecRules& rules, StepPlan& plan) {
  CodecRulesRecord record;
  encode(rules, record);
  *plan.mutable_codecs() = std::move(*record.mutable_rules());
}

CodecRules codecs_of(const StepPlan& plan) {
  CodecRulesRecord record;
  *record.mutable_rules() = plan.codecs();
  return decode(record);
}

bool lossy(std::span<const CodecRule> rules) {
  return std::any_of(rules.begin(), rules.end(),
                     [](const CodecRule& rule) { return rule.codec != Codec::none; });
}

}  // namespace orrery::live
