// orrery schema: prints the JSON Schema of a kind of file, for editors.
#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/usage.hpp"
#include "core/schema/json.hpp"
#include "core/schema/names.hpp"
#include "policies/run/registry.hpp"
#include "topologies/builder.hpp"
#include "topologies/catalog.hpp"
#include "topologies/machine.pb.h"
#include "topologies/topology.pb.h"
#include "traces/scenario.pb.h"
#include "traces/workload/model.hpp"
#include "traces/workload/stacks.hpp"

namespace orrery::embedded {
extern const std::string_view schema_descriptors;
}

namespace orrery::cli {
namespace {

/// Kinds of files.
enum class FileKind : std::uint8_t { scenario, topology, machine, jobs };
constexpr std::array<std::string_view, 4> names_of(FileKind) {
  return {"scenario", "topology", "machine", "jobs"};
}

const google::protobuf::Descriptor& descriptor_of(FileKind kind) {
  switch (kind) {
    case FileKind::topology: return *Topology::descriptor();
    case FileKind::machine: return *MachineProfile::descriptor();
    case FileKind::jobs: return *JobReplay::descriptor();
    case FileKind::scenario: break;
  }
  return *Scenario::descriptor();
}

/// Returns the comments of the .proto files, and the names of catalogues and policies.
SchemaNotes notes() {
  SchemaNotes notes{.comments = SchemaComments(embedded::schema_descriptors)};
  notes.known["orrery.Topology.preset"] = preset_names();
  notes.known["orrery.NodeSpec.gpu"] = gpu_names();
  notes.known["orrery.Model.preset"] = model_names();
  notes.known["orrery.Job.stack"] = stack_names();
  notes.known["orrery.JobReplay.policy"] = policy_names();
  for (const std::string& name : policy_names()) {
    notes.parameters[name] = policy_parameters(name, {})->GetDescriptor();
  }
  return notes;
}

}  // namespace

void add_schema(CLI::App& app, Action& chosen) {
  const auto kind = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("schema", "print the JSON Schema of a kind of file");
  one_of(*command->add_option("KIND", *kind, "scenario, topology, machine or jobs")->required(),
         all_names<FileKind>());
  add_examples(*command, {"orrery schema scenario > scenario.schema.json"});
  command->callback([kind, &chosen] {
    chosen = [kind] {
      fmt::print("{}\n", json_schema(descriptor_of(named<FileKind>(*kind)), notes()).dump(2));
      return 0;
    };
  });
}

}  // namespace orrery::cli
