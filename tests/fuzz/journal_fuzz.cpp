// A journal of any bytes tells a past or is refused with a reason; what is appended to one that was
// taken is read again.
#include <cstdint>
#include <cstdio>
#include <string>
#include <unistd.h>

#include "core/error.hpp"
#include "live/journal.hpp"

namespace {

/// One file in memory for the whole process, rewritten for every input.
const std::string& journal_path() {
  static const std::string path = "/dev/shm/orrery-journal-fuzz-" + std::to_string(getpid());
  return path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using orrery::live::Journal;
  std::FILE* file = std::fopen(journal_path().c_str(), "wb");
  if (file == nullptr) return -1;
  std::fwrite(data, 1, size, file);
  std::fclose(file);
  try {
    orrery::live::JournalRecord record;
    record.set_started(1);
    if (!Journal(journal_path(), "").append(record)) __builtin_trap();
    if (Journal(journal_path(), "").past().started != 1) __builtin_trap();
  } catch (const orrery::Error& error) {
    if (error.kind() != orrery::ErrorKind::environment) __builtin_trap();
  }
  return 0;
}
