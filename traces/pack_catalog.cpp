// pack_catalog MESSAGE FILE OUT: writes the message of a catalogue's YAML file as bytes. The build
// runs the program once for each catalogue and compiles the bytes into the rooms, so that no
// command parses YAML before its first answer. Exit code 1 with the problem and its place for a
// wrong file.
#include <array>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <string>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "topologies/kernels.pb.h"
#include "topologies/topology.pb.h"
#include "traces/scenario.pb.h"

namespace orrery {
namespace {

/// Returns an empty message of the type of a catalogue. Throws an internal Error for another name.
std::unique_ptr<google::protobuf::Message> new_catalog(const std::string& name) {
  const std::array<const google::protobuf::Message*, 6> catalogs{
      &GpuCatalog::default_instance(),    &KernelCatalog::default_instance(),
      &PresetCatalog::default_instance(), &FailureCatalog::default_instance(),
      &ModelCatalog::default_instance(),  &StackCatalog::default_instance()};
  for (const google::protobuf::Message* catalog : catalogs) {
    if (catalog->GetDescriptor()->name() == name) {
      return std::unique_ptr<google::protobuf::Message>(catalog->New());
    }
  }
  throw Error(ErrorKind::internal, "no catalogue has the message " + name);
}

void pack(const std::string& name, const std::string& file, const std::string& out) {
  const std::unique_ptr<google::protobuf::Message> catalog = new_catalog(name);
  load_yaml_file(file, *catalog);
  // A model is resolved with the job that names it.
  if (catalog->GetDescriptor() != ModelCatalog::descriptor()) fill_defaults(*catalog);
  std::ofstream stream(out, std::ios::binary);
  catalog->SerializeToOstream(&stream);
  stream.close();
  if (!stream) throw Error(ErrorKind::environment, "cannot write " + out);
}

}  // namespace
}  // namespace orrery

int main(int count, char** words) {
  try {
    orrery::ensure(count == 4, "usage: pack_catalog MESSAGE FILE OUT");
    orrery::pack(words[1], words[2], words[3]);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 1;
  }
  return 0;
}
