#include "cli/shared/policy_option.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "cli/shared/package_python.hpp"
#include "cli/shared/run_options.hpp"
#include "core/error.hpp"
#include "core/files/file_kind.hpp"
#include "policies/run/choose.hpp"
#include "policies/run/host_policy.hpp"
#include "policies/run/outside_policies.hpp"
#include "policies/run/registry.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;

// Exit code 64 tells a Python without the package from a policy that ends its process.
constexpr const char* kHostScript =
    "import sys\n"
    "sys.path[:0] = sys.argv[1:2]\n"
    "try:\n"
    "    from orrery import _policy_host\n"
    "except ImportError as problem:\n"
    "    print(f'{sys.executable}: {problem}', file=sys.stderr)\n"
    "    sys.exit(64)\n"
    "_policy_host.main()\n";

/// Returns the program that serves policies: the Python of ORRERY_PYTHON, of the build, or of PATH.
HostPolicy::Program host_program() {
  const PackagePython python = package_python();
  return {.path = "/usr/bin/env",
          .arguments = {python.interpreter, "-c", kHostScript, python.folder},
          .absence = fmt::format(
              "--policy FILE.py: expected a Python with the package orrery, found none: '{}' "
              "cannot import it; install the package (pip install orrery) or set ORRERY_PYTHON to "
              "the Python that has it",
              python.interpreter)};
}

HostedPolicy file_of(const std::string& given) {
  HostedPolicy hosted;
  const std::size_t colon = given.ends_with(".py") ? std::string::npos : given.rfind(".py:") + 3;
  hosted.set_file(given.substr(0, colon));
  if (colon != std::string::npos) hosted.set_type(given.substr(colon + 1));
  std::error_code failure;
  if (fs::is_regular_file(hosted.file(), failure)) return hosted;
  throw Error(SourcePlace{.file = hosted.file(), .line_text = ""},
              failure ? "cannot be read: " + failure.message()
                      : "expected a Python file, found "
                        "none");
}

PolicySpec registered(const Scenario& scenario, const std::string& name) {
  Scenario chosen = scenario;
  choose_policy(chosen, name);
  return chosen.policies(0);
}

/// Returns the folders in which policy programs have names: those of ORRERY_POLICY_PATH, then the
/// folder to which `cmake --install` of a policy copies it.
std::vector<fs::path> policy_folders() {
  std::vector<fs::path> folders;
  const char* const path = std::getenv("ORRERY_POLICY_PATH");
  std::istringstream listed(path != nullptr ? path : "");
  for (std::string folder; std::getline(listed, folder, ':');) {
    if (!folder.empty()) folders.emplace_back(folder);
  }
  const char* const home = std::getenv("HOME");
  if (home != nullptr) folders.push_back(fs::path(home) / ".local/share/orrery/policies");
  return folders;
}

/// Returns the path of the policy program that the user means: a path with a slash, or a name in
/// one of the policy_folders(). Empty if `given` is neither. Throws bad_input for a path that is no
/// program.
std::string program_of(const std::string& given) {
  if (is_policy_file(given) || is_policy(given)) return {};
  const bool is_path = given.find('/') != std::string::npos;
  std::vector<fs::path> candidates;
  if (is_path) {
    candidates.emplace_back(given);
  } else if (!given.empty()) {
    for (const fs::path& folder : policy_folders()) candidates.push_back(folder / given);
  }
  for (const fs::path& path : candidates) {
    if (is_file(path) && access(path.c_str(), X_OK) == 0) {
      return path.string();
    }
  }
  if (!is_path) return {};
  throw Error(ErrorKind::bad_input,
              fmt::format("--policy {0}: expected a program or a Python file, found no executable "
                          "file; build the policy, or correct the path",
                          given));
}

/// Returns true if the process of the run cannot make the policy.
bool is_outside(const std::string& given) {
  return is_policy_file(given) || !program_of(given).empty();
}

/// Returns the policy of one name, not started: a name of the registry has the parameters of
/// `registered`, files and programs decide in a process of their own. `order`: work and seed.
PolicyStack::Member make_member(const std::string& given, const HostedPolicy& policy,
                                const PolicyHostOrder& order) {
  if (policy.has_registered()) {
    const PolicySpec& spec = policy.registered();
    return {.name = spec.name(),
            .policy = make_policy(spec.name(), {}),
            .parameters = policy_parameters(spec.name(), spec.parameters())};
  }
  const std::string program = program_of(given);
  HostPolicy::Program host =
      program.empty()
          ? host_program()
          : HostPolicy::Program{.path = program, .arguments = {}, .absence = {}, .name = program};
  PolicyHostOrder own = order;
  if (program.empty()) *own.add_policies() = policy;
  return {.name = fs::path(program.empty() ? given : program).filename().string(),
          .policy = std::make_unique<HostPolicy>(std::move(host), own, was_interrupted),
          .parameters = nullptr};
}

/// Returns a function that makes the policies, each file and each program in a process of its own.
/// `registered_as` returns the policy of a name. Throws for a file that cannot be read and for an
/// unknown name.
template <class RegisteredAs>
StackMaker stack_maker(const std::vector<std::string>& given, const PolicyHostOrder& order,
                       const RegisteredAs& registered_as) {
  std::vector<std::pair<std::string, HostedPolicy>> listed;
  for (const std::string& each : given) {
    HostedPolicy policy;
    if (is_policy_file(each)) {
      policy = file_of(each);
    } else if (program_of(each).empty()) {
      *policy.mutable_registered() = registered_as(each);
    }
    listed.emplace_back(each, std::move(policy));
  }
  return [listed, order] {
    std::vector<PolicyStack::Member> members;
    for (const auto& [name, policy] : listed) members.push_back(make_member(name, policy, order));
    return std::make_unique<PolicyStack>(std::move(members));
  };
}

/// Returns the policies. `registered_as` returns the policy of a name.
template <class RegisteredAs>
std::unique_ptr<Policy> hosted(const std::vector<std::string>& given, const PolicyHostOrder& order,
                               const RegisteredAs& registered_as) {
  const auto is_program = [](const std::string& each) { return !program_of(each).empty(); };
  if (std::any_of(given.begin(), given.end(), is_program)) {
    return std::make_unique<OutsideStack>(stack_maker(given, order, registered_as));
  }
  PolicyHostOrder all = order;  // one process for all files
  for (const std::string& each : given) {
    HostedPolicy& policy = *all.add_policies();
    if (is_policy_file(each)) {
      policy = file_of(each);
    } else {
      *policy.mutable_registered() = registered_as(each);
    }
  }
  return std::make_unique<HostPolicy>(host_program(), std::move(all), was_interrupted);
}

PolicyHostOrder order_of(const RunRequest& request) {
  PolicyHostOrder order;
  *order.mutable_scenario() = request.scenario();
  order.set_seed(policy_seed(request));
  return order;
}

/// Writes the names of policies that a log of the run shows.
void name_policies(const std::vector<std::string>& given, RunRequest& request) {
  request.clear_policy_outside_names();
  for (const std::string& each : given) {
    const std::string program = program_of(each);
    request.add_policy_outside_names(program.empty() ? each : program);
  }
}

}  // namespace

void add_policy_option(CLI::App& command, std::vector<std::string>& given) {
  command
      .add_option(
          "--policy", given,
          "policy in place of the scenario's or the log's: a name, a class in a Python file, "
          "or a program; repeatable")
      ->type_name("NAME|FILE.py[:CLASS]|PROGRAM")
      ->allow_extra_args(false);
}

std::unique_ptr<Policy> choose_policies(const std::vector<std::string>& given,
                                        RunRequest& request) {
  if (given.empty()) return nullptr;
  Scenario& scenario = *request.mutable_scenario();
  const auto by_name = [&](const std::string& name) { return registered(scenario, name); };
  if (std::any_of(given.begin(), given.end(), is_outside)) {
    name_policies(given, request);
    const PolicyHostOrder order = order_of(request);
    auto after = outside_succession(request, {.make = stack_maker(given, order, by_name)});
    if (request.policy_outside_heirs()) return after;
    return hosted(given, order, by_name);  // makes them as a replay does
  }
  std::vector<PolicySpec> specs;
  for (const std::string& name : given) specs.push_back(by_name(name));
  scenario.mutable_policies()->Assign(specs.begin(), specs.end());
  return nullptr;
}

bool has_outside_policy(const std::vector<std::string>& given) {
  return std::any_of(given.begin(), given.end(), is_outside);
}

FuturePolicies choose_future_policies(const std::vector<std::string>& given,
                                      const std::vector<std::string>& choices,
                                      RunRequest& request) {
  const bool own_outside = has_outside_policy(given);
  const bool any = own_outside || has_outside_policy(choices);
  if (own_outside) name_policies(given, request);
  const Scenario scenario = request.scenario();
  for (const std::string& name : choices) {
    FutureChoice& choice = *request.mutable_futures()->add_choices();
    choice.set_outside(own_outside || is_outside(name));
    if (choice.outside()) continue;
    Scenario chosen = scenario;
    choose_policy(chosen, name);
    *choice.mutable_policies() = chosen.policies();
  }
  if (!any) return {};
  const auto by_name = [scenario](const std::string& name) { return registered(scenario, name); };
  const PolicyHostOrder order = order_of(request);
  StackMaker own = [scenario] { return make_stack(scenario, SourceMap{}); };
  if (own_outside) own = stack_maker(given, order, by_name);
  std::vector<StackMaker> heirs;
  for (const std::string& name : choices) heirs.push_back(stack_maker({name}, order, by_name));
  return [=](RunRequest& one, std::optional<int> choice) -> std::unique_ptr<Policy> {
    const bool changes = choice && one.futures().choices(*choice).outside();
    if (!own_outside && !changes) return nullptr;
    auto all =
        outside_succession(one, {.make = own, .replace_scenario = own_outside},
                           changes ? heirs[static_cast<std::size_t>(*choice)] : StackMaker{});
    if (changes || one.policy_outside_heirs()) return all;
    return hosted(given, order, by_name);  // makes them as a replay does
  };
}

std::unique_ptr<Policy> log_policies(const std::vector<std::string>& given,
                                     const LogHeader& header) {
  PolicyHostOrder order;
  order.set_seed(header.seed());
  if (header.has_replay()) {
    *order.mutable_replay() = header.replay();
  } else {
    *order.mutable_scenario() = header.scenario();
  }
  const auto by_name = [&](const std::string& name) {
    check_policy_name(name);
    if (!header.has_replay()) return registered(header.scenario(), name);
    JobReplay replay = header.replay();
    replay.set_policy(name);
    return policy_of(replay);
  };
  if (std::any_of(given.begin(), given.end(), is_outside)) {
    return hosted(given, order, by_name);
  }
  Scenario scenario;
  for (const std::string& name : given) *scenario.add_policies() = by_name(name);
  return make_stack(scenario, SourceMap{});
}

std::unique_ptr<Policy> job_policy(const JobReplay& replay, std::uint64_t seed) {
  if (!is_outside(replay.policy())) return nullptr;
  LogHeader header;
  *header.mutable_replay() = replay;
  header.set_seed(seed);
  return log_policies({replay.policy()}, header);
}

std::unique_ptr<Policy> scheduler_of(const JobReplay& replay) {
  auto policy = job_policy(replay);
  return policy ? std::move(policy) : make_stack(replay);
}

void check_policy_name(const std::string& policy) {
  if (is_policy(policy) || is_outside(policy)) return;
  throw Error(ErrorKind::usage, no_such_policy(policy));
}

}  // namespace orrery::cli
