// orrery schema: JSON Schemas for editors.
#include <memory>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "core/schema/json.hpp"
#include "topologies/machine.pb.h"
#include "topologies/topology.pb.h"
#include "traces/scenario.pb.h"

namespace orrery::cli {
namespace {

const google::protobuf::Descriptor& descriptor_of(const std::string& kind) {
  if (kind == "topology") return *Topology::descriptor();
  if (kind == "jobs") return *JobReplay::descriptor();
  if (kind == "machine") return *MachineProfile::descriptor();
  return *Scenario::descriptor();
}

}  // namespace

void add_schema(CLI::App& app, Action& chosen) {
  const auto kind = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("schema", "print the JSON Schema of a kind of file");
  command->add_option("KIND", *kind, "scenario, topology, machine or jobs")
      ->required()
      ->check(CLI::IsMember({"scenario", "topology", "machine", "jobs"}));
  command->callback([kind, &chosen] {
    chosen = [kind] {
      fmt::print("{}\n", json_schema(descriptor_of(*kind)).dump(2));
      return 0;
    };
  });
}

}  // namespace orrery::cli
