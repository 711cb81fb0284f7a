// Policies by name. A policy registers itself in registry.cpp's table: name, factory. Its
// parameters are the message orrery.<Name>Parameters of parameters.proto.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/schema/yaml_loader.hpp"
#include "policies/seam/stack.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

std::vector<std::string> policy_names();

/// "there is no policy 'x'; did you mean 'y'? Known: ..."
std::string no_such_policy(std::string_view name);

/// Throws bad_input at `place` (if any) with the nearest name.
std::unique_ptr<Policy> make_policy(std::string_view name, const SourcePlace& place);

/// The parameters message of a policy with its defaults, overlaid with `given` (may be empty).
/// Throws bad_input if `given` is of another policy.
std::unique_ptr<google::protobuf::Message> policy_parameters(std::string_view name,
                                                             const google::protobuf::Any& given);

/// Whether a policy of the scenario could go on with that parameter. Throws bad_input if not.
void check_parameter(const Scenario& scenario, const ParameterSet& set, const Cluster& cluster);

/// The stack that a scenario asks for; an empty list gives `static`.
std::unique_ptr<PolicyStack> make_stack(const Scenario& scenario, const SourceMap& places);

/// "policy.parameter=value". Throws usage for anything else.
ParameterSet parameter_set(const std::string& text);

/// The one policy of a job-level replay: its parameter `placement` is the replay's, others are as
/// the replay sets them. Throws bad_input for what it does not have.
PolicySpec policy_of(const JobReplay& replay);
std::unique_ptr<PolicyStack> make_stack(const JobReplay& replay);

/// The cluster of a job-level replay: resolved, or only its counts are known. Throws bad_input on
/// counts outside those of the schema.
Cluster cluster_of(const JobReplay& replay);

}  // namespace orrery
