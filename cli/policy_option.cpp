#include "cli/policy_option.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "cli/run_options.hpp"
#include "core/error.hpp"
#include "core/process.hpp"
#include "policies/run/choose.hpp"
#include "policies/run/registry.hpp"
#include "policies/run/remote_policy.hpp"

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

/// Returns the folder that contains the package of this program; empty if unknown.
std::string package_folder() {
  const fs::path program(sibling_program("orrery"));
  const fs::path bin = program.parent_path();
  if (fs::exists(bin.parent_path() / "_policy_host.py")) return bin.parent_path().parent_path();
  const fs::path built = bin.parent_path() / "python";
  return fs::exists(built / "orrery" / "_policy_host.py") ? built.string() : std::string();
}

/// Returns the program that serves policies: the Python of ORRERY_PYTHON, of the build, or of PATH.
HostPolicy::Program host_program() {
  const char* const chosen = std::getenv("ORRERY_PYTHON");
  const fs::path built = fs::path(sibling_program("orrery")).parent_path() / "../venv/bin/python";
  std::string python = "python3";
  if (chosen != nullptr && *chosen != '\0') {
    python = chosen;
  } else if (fs::exists(built)) {
    python = built;
  }
  return {.path = "/usr/bin/env",
          .arguments = {python, "-c", kHostScript, package_folder()},
          .absence = fmt::format(
              "--policy FILE.py: expected a Python with the package orrery, found none: '{}' "
              "cannot import it; install the package (pip install orrery) or set ORRERY_PYTHON to "
              "the Python that has it",
              python)};
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

/// Adds the policies to the order. `registered_as` returns the policy of a name.
template <class RegisteredAs>
std::unique_ptr<Policy> hosted(const std::vector<std::string>& given, PolicyHostOrder order,
                               const RegisteredAs& registered_as) {
  for (const std::string& each : given) {
    HostedPolicy& policy = *order.add_policies();
    if (is_policy_file(each)) {
      policy = file_of(each);
    } else {
      *policy.mutable_registered() = registered_as(each);
    }
  }
  return std::make_unique<HostPolicy>(host_program(), std::move(order), was_interrupted);
}

}  // namespace

void add_policy_option(CLI::App& command, std::vector<std::string>& given) {
  command
      .add_option("--policy", given,
                  "policy in place of the scenario's or the log's: a name, or a class in a Python "
                  "file; repeatable")
      ->type_name("NAME|FILE.py[:CLASS]")
      ->allow_extra_args(false);
}

std::unique_ptr<Policy> choose_policies(const std::vector<std::string>& given,
                                        RunRequest& request) {
  if (given.empty()) return nullptr;
  Scenario& scenario = *request.mutable_scenario();
  const auto by_name = [&](const std::string& name) { return registered(scenario, name); };
  if (std::any_of(given.begin(), given.end(), is_policy_file)) {
    for (const std::string& each : given) request.add_policy_outside_names(each);
    PolicyHostOrder order;
    *order.mutable_scenario() = scenario;
    order.set_seed(scenario.run().seed());
    return hosted(given, std::move(order), by_name);
  }
  std::vector<PolicySpec> specs;
  for (const std::string& name : given) specs.push_back(by_name(name));
  scenario.mutable_policies()->Assign(specs.begin(), specs.end());
  return nullptr;
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
  if (std::any_of(given.begin(), given.end(), is_policy_file)) {
    return hosted(given, std::move(order), by_name);
  }
  Scenario scenario;
  for (const std::string& name : given) *scenario.add_policies() = by_name(name);
  return make_stack(scenario, SourceMap{});
}

std::unique_ptr<Policy> job_policy(const JobReplay& replay, std::uint64_t seed) {
  if (!is_policy_file(replay.policy())) return nullptr;
  LogHeader header;
  *header.mutable_replay() = replay;
  header.set_seed(seed);
  return log_policies({replay.policy()}, header);
}

void check_policy_name(const std::string& policy) {
  if (is_policy_file(policy) || is_policy(policy)) return;
  throw Error(ErrorKind::usage, no_such_policy(policy));
}

}  // namespace orrery::cli
