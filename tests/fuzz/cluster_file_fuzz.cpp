// Any bytes as a cluster file of another tool: read, or refused with their place.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/error.hpp"
#include "traces/clusters/cluster_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    orrery::parse_cluster_file(text, "fuzz");
  } catch (const orrery::Error& error) {
    if (error.kind() != orrery::ErrorKind::bad_input || !error.source_place()) std::abort();
  }
  return 0;
}
