// The policies of examples/policies by the names of their Python files, with the one number that
// those take, as tests and the program of decide.cpp ask for them.
#pragma once

#include <memory>
#include <string>

#include "core/error.hpp"
#include "examples/policies/adaptive_checkpoints.hpp"
#include "examples/policies/cheapest_recovery.hpp"
#include "examples/policies/collective_tuner.hpp"
#include "examples/policies/elastic.hpp"
#include "examples/policies/gang_scheduler.hpp"

namespace orrery::example {

/// `number`: mtbf_s, replacement_s, back_after_s, whether urgent jobs preempt, tried steps.
inline std::unique_ptr<Policy> by_name(const std::string& name, double number) {
  using enum CollectiveAlgorithm;
  if (name == "adaptive_checkpoints") return std::make_unique<AdaptiveCheckpoints>(number);
  if (name == "cheapest_recovery") return std::make_unique<CheapestRecovery>(number);
  if (name == "elastic") return std::make_unique<Elastic>(number);
  if (name == "gang_scheduler") {
    return std::make_unique<GangScheduler>(std::map<std::string, int>{{"urgent", 1}}, number != 0);
  }
  if (name == "collective_tuner") {
    return std::make_unique<CollectiveTuner>(
        std::vector<CollectiveAlgorithm>{ring, tree, halving_doubling},
        static_cast<std::size_t>(number));
  }
  throw Error(ErrorKind::usage, "there is no example policy " + name);
}

}  // namespace orrery::example
