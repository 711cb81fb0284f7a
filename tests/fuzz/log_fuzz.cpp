// A log file of any bytes is replayed, differs, or is refused as bad input.
#include <cstdint>
#include <cstdio>
#include <string>
#include <unistd.h>

#include <google/protobuf/stubs/logging.h>

#include "core/error.hpp"
#include "policies/run/replay.hpp"

namespace {

/// One file in memory for the whole process, rewritten for every input.
const std::string& log_path() {
  static const std::string path = "/dev/shm/orrery-log-fuzz-" + std::to_string(getpid());
  return path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const google::protobuf::LogSilencer quiet;
  std::FILE* file = std::fopen(log_path().c_str(), "wb");
  if (file == nullptr) return -1;
  std::fwrite(data, 1, size, file);
  std::fclose(file);
  try {
    orrery::replay_log(log_path(), {});
  } catch (const orrery::Error& error) {
    if (error.kind() != orrery::ErrorKind::bad_input) __builtin_trap();
  }
  return 0;
}
