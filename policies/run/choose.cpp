#include "policies/run/choose.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "policies/run/registry.hpp"

namespace orrery {

void choose_policy(Scenario& scenario, const std::string& name) {
  const std::vector<std::string> known = policy_names();
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    throw Error(ErrorKind::usage, no_such_policy(name));
  }
  PolicySpec chosen;
  chosen.set_name(name);
  for (const PolicySpec& written : scenario.policies()) {
    if (written.name() == name) chosen = written;
  }
  scenario.clear_policies();
  *scenario.add_policies() = std::move(chosen);
}

}  // namespace orrery
