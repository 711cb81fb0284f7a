// Any bytes as the one file of a Chakra trace: read, or refused with their place.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/error.hpp"
#include "traces/chakra/chakra_reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    orrery::ChakraFolder folder("fuzz");
    folder.add_rank(0, "fuzz.0.et", bytes);
    folder.add_rank(1, "fuzz.1.et", bytes);
    const orrery::ChakraTrace trace = folder.finish_trace();
    for (const orrery::RankProgram& program : trace.programs) {
      if (!program.ops.empty() && program.ops.back().after_end != program.after.size()) {
        std::abort();
      }
    }
  } catch (const orrery::Error& error) {
    if (error.kind() != orrery::ErrorKind::bad_input || !error.source_place()) std::abort();
  }
  return 0;
}
