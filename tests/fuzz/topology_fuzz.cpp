// Any bytes as a topology: built, or refused with their place; check and set_field on the way.
#include <cstdint>
#include <cstdlib>

#include "topologies/builder.hpp"

namespace {

void require_place(const orrery::Error& error) {
  if (error.kind() != orrery::ErrorKind::bad_input || !error.source_place()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  orrery::Topology topology;
  for (const orrery::Error& error : orrery::check_yaml(text, "fuzz.yaml", topology)) {
    require_place(error);
  }
  try {
    const orrery::SourceMap places = orrery::load_yaml(text, "fuzz.yaml", topology);
    orrery::resolve(topology, places);
    orrery::build_cluster(topology, places);
  } catch (const orrery::Error& error) {
    require_place(error);
  }
  try {
    const std::size_t equals = std::min(text.find('='), text.size());
    orrery::set_field(topology, text.substr(0, equals),
                      text.substr(std::min(equals + 1, text.size())), "--set");
  } catch (const orrery::Error& error) {
    require_place(error);
  }
  return 0;
}
