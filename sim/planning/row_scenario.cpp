#include "sim/planning/row_scenario.hpp"

#include "core/schema/yaml_writer.hpp"

namespace orrery::sim {

std::string scenario_text(Scenario scenario, const std::string& comment) {
  std::string policies;
  for (const PolicySpec& each : scenario.policies()) {
    policies += "  - " + to_yaml_json(each).dump() + "\n";
  }
  scenario.clear_policies();
  std::string text = "# " + comment + "\n" + to_yaml_file(scenario);
  if (!policies.empty()) text += "policies:\n" + policies;
  return text;
}

}  // namespace orrery::sim
