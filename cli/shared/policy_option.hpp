// Option --policy: policies in place of those of a scenario, a log or a job trace. A policy is a
// name of `orrery list policies`; FILE.py[:Class], a class derived from orrery.Policy, which a
// Python process beside the command serves; or a program built with the package OrreryPolicy, by
// its path (with a slash) or its name in one of the folders for policies. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "policies/run/worker.hpp"
#include "policies/seam/policy.hpp"
#include "traces/run.pb.h"
#include "traces/trace.pb.h"

namespace orrery::cli {

/// Declares --policy; `given` receives the policies in the order of the command line, and must
/// outlive the parsing.
void add_policy_option(CLI::App& command, std::vector<std::string>& given);

/// Replaces the policies of the run by `given`, unless `given` is empty. Returns the policy that
/// decides in this process; null if the process of the run decides, which it does if all policies
/// have names. Throws a usage error for an unknown name, and bad_input for a file that cannot be
/// read and for a path (with a slash) that is no executable file.
std::unique_ptr<Policy> choose_policies(const std::vector<std::string>& given, RunRequest& request);

/// Returns true if the process of a run cannot make one of the policies: a file or a program.
/// Throws bad_input for a path (with a slash) that is no executable file.
bool has_outside_policy(const std::vector<std::string>& given);

/// Adds a choice for each name of `choices` to the futures of the request, and returns the policies
/// of each future: those of `given` if it has_outside_policy(), else those of the request's
/// scenario (choose_policies() has written names there), until the futures begin, and those of the
/// choice afterwards. Returns nothing if all decide in the process of the run. Throws as
/// choose_policies().
FuturePolicies choose_future_policies(const std::vector<std::string>& given,
                                      const std::vector<std::string>& choices, RunRequest& request);

/// Returns the policies of `given` for the replay of a log, not started; the policy `static` if
/// `given` is empty. Throws as choose_policies().
std::unique_ptr<Policy> log_policies(const std::vector<std::string>& given,
                                     const LogHeader& header);

/// Returns the policy that schedules the jobs of a job trace if it is a file or a program; null for
/// a name of the registry and for an unknown name. `seed`: seed of the run. Throws as
/// choose_policies().
std::unique_ptr<Policy> job_policy(const JobReplay& replay, std::uint64_t seed = 0);

/// Returns a new policy that schedules the jobs of a job trace in this process, not started: a
/// name, a file or a program. Throws as choose_policies().
std::unique_ptr<Policy> scheduler_of(const JobReplay& replay);

/// Throws a usage error with the nearest name unless `policy` is a file, a program or a known name;
/// bad_input for a path (with a slash) that is no executable file. Does not look whether FILE.py
/// exists.
void check_policy_name(const std::string& policy);

}  // namespace orrery::cli
