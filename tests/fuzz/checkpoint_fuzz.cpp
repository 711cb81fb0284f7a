// Fuzzer: any bytes as a file of a checkpoint are read, or refused as bad input. The first byte
// chooses the file, and whether its checksum is corrected, so that the code behind it is reached.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/error.hpp"
#include "live/checkpoint/format.hpp"

namespace {

using namespace orrery;

/// Accepted contents are written as they were read.
void read(const std::string& bytes, bool manifest) {
  std::string again;
  if (manifest) {
    again = live::encode_manifest(live::parse_manifest(bytes, "a manifest"));
  } else {
    const live::Shard shard = live::parse_shard(bytes, "a shard");
    again = live::encode_shard(shard.header, shard.part);
  }
  live::seal(again);
  if (again != bytes) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] & 2) live::seal(bytes);
  try {
    read(bytes, data[0] & 1);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_input) std::abort();
  }
  return 0;
}
