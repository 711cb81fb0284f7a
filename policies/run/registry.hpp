// Registry of the built-in policies by name. To register a policy, add its name, its class and its
// parameters message orrery.<Name>Parameters (parameters.proto) to the table in registry.cpp. Pure
// functions; thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/schema/yaml_loader.hpp"
#include "policies/seam/stack.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Returns the names of all policies in alphabetical order.
std::vector<std::string> policy_names();
/// Returns the names of the policies that order a queue of jobs, in alphabetical order: those whose
/// parameters have a placement.
std::vector<std::string> queue_policy_names();

/// Returns true if the registry has a policy of this name.
bool is_policy(std::string_view name);
/// Returns true for the name of a policy in a file: "mine.py", "folder/mine.py:Mine".
bool is_policy_file(std::string_view name);

/// Returns the error text for an unknown policy, for example "there is no policy 'statik'; did you
/// mean 'static'? Known of job queues: ..." A name that other schedulers use ("backfill", "fcfs")
/// gets the name here.
std::string no_such_policy(std::string_view name);

/// Returns a new policy, not started. Throws bad_input at `place` (if `place` names a file) with
/// the nearest name for an unknown policy.
std::unique_ptr<Policy> make_policy(std::string_view name, const SourcePlace& place);

/// Returns the parameters message of a policy: the values of `given`, and defaults for all other
/// fields. An empty `given` gives the defaults. Throws bad_input for an unknown policy, or if
/// `given` holds the parameters of another policy.
std::unique_ptr<google::protobuf::Message> policy_parameters(std::string_view name,
                                                             const google::protobuf::Any& given);

/// Checks a change of a parameter during a run of the scenario, by starting a new policy with the
/// parameter. Throws bad_input if the scenario lacks the policy, the policy lacks the parameter, or
/// the value is invalid.
void check_parameter(const Scenario& scenario, const ParameterSet& set, const Cluster& cluster);

/// Returns the stack of the scenario's policies; the policy `static` if the scenario names none.
/// `places`: places of the scenario's values in its file, for errors. Throws bad_input for an
/// unknown policy or the parameters of another policy; the policy's start() checks the values.
std::unique_ptr<PolicyStack> make_stack(const Scenario& scenario, const SourceMap& places);

/// Returns the change that a text describes, for example "recover.how=shrink". Does not check the
/// names, which end at the first "." and at the first "=" and may be empty. Throws a usage Error if
/// the text is not POLICY.PARAMETER=VALUE.
ParameterSet parameter_set(const std::string& text);

/// Returns true for a queue policy of the program that starts jobs within limits of power which it
/// knows in advance (its parameter `limits`).
bool knows_power_limits(const std::string& policy);

/// Returns the policy of a job-level replay with its parameters: `placement` from the replay, the
/// limits of its power if jobs wait for them and the policy knows_power_limits(), then the changes
/// in replay.set() for this policy, and defaults; ignores changes for other policies. Throws
/// bad_input for an unknown policy or a parameter that the policy does not have, and a usage Error
/// for a malformed change.
PolicySpec policy_of(const JobReplay& replay);
/// Returns the policy of a job-level replay as a stack with one member. Throws as policy_of().
std::unique_ptr<PolicyStack> make_stack(const JobReplay& replay);

/// Returns the cluster of a job-level replay: its topology if the replay has one, otherwise a
/// cluster of unspecified GPUs with the replay's numbers of nodes and GPUs. Throws bad_input for
/// numbers outside the range of the schema.
Cluster cluster_of(const JobReplay& replay);

}  // namespace orrery
