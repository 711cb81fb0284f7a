// Registry of policies by name. A policy registers itself in registry.cpp's table with name and
// factory. Its parameters are the message orrery.<Name>Parameters of parameters.proto.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/schema/yaml_loader.hpp"
#include "policies/seam/stack.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Returns the names of all policies.
std::vector<std::string> policy_names();

/// Returns the message for an unknown policy, for example "there is no policy 'x'; did you mean
/// 'y'? Known: ..."
std::string no_such_policy(std::string_view name);

/// Returns a new policy. Throws bad_input at `place` (if given) with the nearest name.
std::unique_ptr<Policy> make_policy(std::string_view name, const SourcePlace& place);

/// Returns the parameters message of a policy: its defaults, overlaid with `given` (may be empty).
/// Throws bad_input if `given` is of another policy.
std::unique_ptr<google::protobuf::Message> policy_parameters(std::string_view name,
                                                             const google::protobuf::Any& given);

/// Throws bad_input if no policy of the scenario can continue with that parameter.
void check_parameter(const Scenario& scenario, const ParameterSet& set, const Cluster& cluster);

/// Returns the stack that a scenario asks for; an empty list gives `static`.
std::unique_ptr<PolicyStack> make_stack(const Scenario& scenario, const SourceMap& places);

/// Returns the change that "policy.parameter=value" describes. Throws usage for any other text.
ParameterSet parameter_set(const std::string& text);

/// Returns the policy of a job-level replay: its parameter `placement` is the replay's, others are
/// as the replay sets them. Throws bad_input for a parameter that the policy does not have.
PolicySpec policy_of(const JobReplay& replay);
/// Returns the policy of a job-level replay as a stack.
std::unique_ptr<PolicyStack> make_stack(const JobReplay& replay);

/// Returns the cluster of a job-level replay, resolved or from its counts alone. Throws bad_input
/// on counts outside the schema's range.
Cluster cluster_of(const JobReplay& replay);

}  // namespace orrery
